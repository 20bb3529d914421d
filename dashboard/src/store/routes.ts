/** Mapping between views and URL paths. */
export type Route =
  | { view: "compare" }
  | { view: "scheduler"; name: string | null }
  | { view: "history" }
  | { view: "run"; id: string }
  | { view: "diff" }
  | { view: "runtime" }
  | { view: "workspace" }
  | { view: "cluster" }
  | { view: "learning"; id: string; name: string }
  | { view: "missing"; path: string };

export type ViewName = Route["view"];

/** Whether the time range of the page applies to a view; the others show whole runs. */
export const hasTimeRange = (view: ViewName): boolean => view === "compare" || view === "scheduler";

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function parsePath(path: string): Route {
  const [first = "", second = "", third, fourth = ""] = path.split("/").filter(Boolean).map(decoded);
  switch (first) {
    case "":
    case "compare":
      return { view: "compare" };
    case "scheduler":
      return { view: "scheduler", name: second || null };
    case "history":
      return { view: "history" };
    case "run":
      if (third === "learning" && fourth) return { view: "learning", id: second, name: fourth };
      return second ? { view: "run", id: second } : { view: "missing", path };
    case "diff":
      return { view: "diff" };
    case "runtime":
      return { view: "runtime" };
    case "workspace":
      return { view: "workspace" };
    case "cluster":
      return { view: "cluster" };
    default:
      return { view: "missing", path };
  }
}

export function pathOf(route: Route): string {
  switch (route.view) {
    case "scheduler":
      return route.name ? `/scheduler/${encodeURIComponent(route.name)}` : "/scheduler";
    case "run":
      return `/run/${encodeURIComponent(route.id)}`;
    case "learning":
      return `/run/${encodeURIComponent(route.id)}/learning/${encodeURIComponent(route.name)}`;
    case "missing":
      return route.path;
    default:
      return `/${route.view}`;
  }
}
