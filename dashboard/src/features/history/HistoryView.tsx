import { WidgetGrid } from "../../components/widget/WidgetGrid";
import { HISTORY_WIDGETS } from "./widgets";

/** View "History": playback, trends, retraining and the list of runs. */
export default function HistoryView() {
  return (
    <>
      <h1 className="sr-only">History</h1>
      <WidgetGrid view="history" widgets={HISTORY_WIDGETS} />
    </>
  );
}
