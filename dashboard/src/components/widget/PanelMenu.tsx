import { Download, Ellipsis, Image, Link, Maximize2, Move, Table2, X } from "lucide-react";
import { IconButton } from "../ui/Button";
import { Menu, type MenuItem } from "../ui/Menu";
import { useWidget } from "./widgetContext";

interface PanelActions {
  expand: () => void;
  table?: () => void;
  tableOn: boolean;
  csv?: () => void;
  png: () => void;
  link: () => void;
  move?: () => void;
}

const icon = (Icon: typeof X) => <Icon size={15} aria-hidden="true" />;

/** Menu of a widget. */
export function PanelMenu({ title, actions }: { title: string; actions: PanelActions }) {
  const widget = useWidget();
  const items: MenuItem[] = [
    { key: "expand", label: "Expand", icon: icon(Maximize2), hint: "Enter", onSelect: actions.expand },
    {
      key: "table",
      label: actions.tableOn ? "View as chart" : "View as table",
      icon: icon(Table2),
      hint: "V",
      disabled: !actions.table,
      onSelect: () => actions.table?.(),
    },
    {
      key: "csv",
      label: "CSV",
      icon: icon(Download),
      hint: "E",
      disabled: !actions.csv,
      onSelect: () => actions.csv?.(),
    },
    { key: "png", label: "PNG", icon: icon(Image), onSelect: actions.png },
    { key: "link", label: "Copy link", icon: icon(Link), onSelect: actions.link },
  ];
  if (widget) {
    items.push(
      { key: "move", label: "Move, resize", icon: icon(Move), hint: "arrows", onSelect: () => actions.move?.() },
      { key: "remove", label: "Remove", icon: icon(X), hint: "Del", onSelect: widget.remove },
    );
  }
  return (
    <Menu
      label={`${title}: actions`}
      items={items}
      trigger={(props) => (
        <IconButton label={`${title}: menu`} {...props}>
          <Ellipsis size={16} aria-hidden="true" />
        </IconButton>
      )}
    />
  );
}
