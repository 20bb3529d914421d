/** WebSocket of the event stream that reconnects by itself after 250 ms to 1.5 s. It does not interpret messages. */
interface SocketReport {
  open: () => void;
  message: (value: unknown) => void;
  /** Called for text that is not JSON. */
  notJson: () => void;
  closed: (attempt: number, retryInMs: number) => void;
}

const FIRST_MS = 250;
const LONGEST_MS = 1500;
/** Time limit of a handshake, for networks that drop packets silently. */
const HANDSHAKE_TIMEOUT_MS = 4000;

export const delayFor = (attempt: number): number => Math.min(LONGEST_MS, FIRST_MS * 2 ** Math.max(0, attempt - 1));

export class LiveSocket {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private handshakeTimeout: ReturnType<typeof setTimeout> | undefined;
  private attempt = 0;
  private stopped = false;

  constructor(
    private readonly url: () => string,
    private readonly report: SocketReport,
  ) {}

  start(): void {
    this.stopped = false;
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    clearTimeout(this.handshakeTimeout);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  /** Resets the back-off after the first message, which proves that the connection works. */
  proven(): void {
    this.attempt = 0;
  }

  retryNow(): void {
    if (this.socket?.readyState === WebSocket.OPEN) return;
    clearTimeout(this.timer);
    this.connect();
  }

  private connect(): void {
    if (this.stopped) return;
    const previous = this.socket;
    this.socket = null;
    previous?.close();
    const socket = new WebSocket(this.url());
    this.socket = socket;
    this.handshakeTimeout = setTimeout(() => socket.close(), HANDSHAKE_TIMEOUT_MS);
    socket.onopen = () => {
      clearTimeout(this.handshakeTimeout);
      if (this.socket === socket) this.report.open();
    };
    socket.onmessage = (message) => {
      if (this.socket !== socket) return;
      let value: unknown;
      try {
        value = JSON.parse(String(message.data));
      } catch {
        this.report.notJson();
        return;
      }
      this.report.message(value);
    };
    socket.onclose = () => {
      clearTimeout(this.handshakeTimeout);
      if (this.socket !== socket || this.stopped) return;
      this.socket = null;
      this.attempt++;
      const delay = delayFor(this.attempt);
      this.report.closed(this.attempt, delay);
      this.timer = setTimeout(() => this.connect(), delay);
    };
  }
}
