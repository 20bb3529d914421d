import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { Headline } from "./Headline";
import { COMPARE_WIDGETS } from "./widgets";

/** Global Comparison: the headline, then the widgets in the order of the questions people ask. */
export default function CompareView() {
  return (
    <>
      <Headline />
      <WidgetGrid view="compare" widgets={COMPARE_WIDGETS} />
    </>
  );
}
