import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { Headline } from "./Headline";
import { LearningProgress } from "./LearningProgress";
import { COMPARE_WIDGETS } from "./widgets";

/** View "Compare": the headline, what learning did, and the widgets of the current run. */
export default function CompareView() {
  return (
    <>
      <div className="mb-4 grid gap-4 xl:has-[>:nth-child(2)]:grid-cols-[minmax(0,5fr)_minmax(0,3fr)]">
        <Headline />
        <LearningProgress />
      </div>
      <WidgetGrid view="compare" widgets={COMPARE_WIDGETS} />
    </>
  );
}
