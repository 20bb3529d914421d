import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { useLive } from "../../store/liveStore";
import { Headline } from "./Headline";
import { LearningProgress, learnerOf } from "./LearningProgress";
import { COMPARE_WIDGETS } from "./widgets";

/** View "Compare": the headline, what learning did, and the widgets of the current run. */
export default function CompareView() {
  const learner = useLive((s) => learnerOf(s.comparison));
  return (
    <>
      <div className="mb-4 grid gap-4 xl:grid-cols-[minmax(0,5fr)_minmax(0,3fr)]">
        <Headline />
        {learner === null ? null : <LearningProgress learner={learner} />}
      </div>
      <WidgetGrid view="compare" widgets={COMPARE_WIDGETS} />
    </>
  );
}
