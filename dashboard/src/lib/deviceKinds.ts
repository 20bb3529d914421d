/** Device kinds by name from a stored configuration; empty for old runs without them. */
export function deviceKinds(config: Readonly<Record<string, unknown>>): Map<string, string> {
  const platform = config.platform as { devices?: unknown } | null | undefined;
  const list = Array.isArray(platform?.devices) ? platform.devices : [];
  return new Map(
    list.flatMap((device: { name?: unknown; kind?: unknown } | null) =>
      typeof device?.name === "string" && typeof device.kind === "string" ? [[device.name, device.kind]] : [],
    ),
  );
}
