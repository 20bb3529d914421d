import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { Headline } from "./Headline";
import { COMPARE_WIDGETS } from "./widgets";

/** View "Compare": the headline and the widgets of the current run. */
export default function CompareView() {
  return (
    <>
      <Headline />
      <WidgetGrid view="compare" widgets={COMPARE_WIDGETS} />
    </>
  );
}
