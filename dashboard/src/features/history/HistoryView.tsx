import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { HISTORY_WIDGETS } from "./widgets";

/** Historical Analysis: back in time, over the long run, and from run to run. */
export default function HistoryView() {
  return (
    <>
      <h1 className="sr-only">History</h1>
      <WidgetGrid view="history" widgets={HISTORY_WIDGETS} />
    </>
  );
}
