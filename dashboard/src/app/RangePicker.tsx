import { SegmentedControl } from "../components/ui/SegmentedControl";
import { setUi, useUi } from "../store/uiStore";
import { RANGES, rangeKey } from "../store/urlState";

/** Choice of the time range that all widgets show. */
export function RangePicker() {
  const range = useUi((s) => s.range);
  return (
    <SegmentedControl
      label="Time range"
      choices={RANGES.map((item) => ({ value: item.key, label: item.label }))}
      value={range.kind === "fixed" ? null : rangeKey(range)}
      onChange={(key) => {
        const found = RANGES.find((item) => item.key === key);
        if (found) setUi({ range: found.range });
      }}
    />
  );
}
