import type { AnchorHTMLAttributes, MouseEvent } from "react";
import type { Route } from "../store/routes";
import { hrefOf, navigate, useUi } from "../store/uiStore";
import type { UrlState } from "../store/urlState";

interface LinkProps extends AnchorHTMLAttributes<HTMLAnchorElement> {
  to: Route;
  change?: Partial<UrlState>;
}

/** Link within the page that also opens in a new tab. */
export function Link({ to, change, onClick, ...rest }: LinkProps) {
  // The address depends on the whole state, so the link renders again whenever it changes.
  useUi();
  const go = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    navigate(to, change);
  };
  return <a href={hrefOf(to, change)} onClick={go} {...rest} />;
}
