/** Logo: three bars, as blocks of a schedule. */
export function Logo() {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true" className="shrink-0">
      <rect x="2" y="4" width="11" height="4" rx="2" fill="var(--gpu)" />
      <rect
        x="8"
        y="10"
        width="14"
        height="4"
        rx="2"
        className="fill-[#C85FFD] [[data-theme=light]_&]:fill-[#7E19E8]"
      />
      <rect x="4" y="16" width="8" height="4" rx="2" fill="var(--faint)" />
    </svg>
  );
}
