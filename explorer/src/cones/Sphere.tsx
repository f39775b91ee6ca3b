/** The sphere on its canvas: WebGL where there is one, else 2D; turned by mouse, touch and keys. */
import type { Signal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useTheme } from "../context";
import { afterKey, START, turned, type View, zoomed } from "./camera";
import { flat } from "./flat";
import { type Maker, Painter } from "./painter";
import type { Scene } from "./scene";
import { webgl } from "./webgl";

const REACH = { mouse: 9, touch: 22 };
/** A pointer that moves less than this many pixels clicks. */
const CLICK = 5;

export interface SphereProps {
  scene: Scene;
  view: Signal<View>;
  /** What a reader hears in place of the drawing. */
  label: string;
  onPoint: (index: number, x: number, y: number) => void;
  onChoose: (index: number) => void;
}

type Mode = "WebGL" | "2D";

export function Sphere(props: SphereProps) {
  const [mode, setMode] = useState<Mode>(() => (forced2D() ? "2D" : "WebGL"));
  const [lost, setLost] = useState(false);
  return (
    <div class="sphere">
      {/* A canvas that once had one kind of context never has another. */}
      <Stage
        key={mode}
        {...props}
        mode={mode}
        onLost={(wasDrawn) => {
          setLost(wasDrawn);
          setMode("2D");
        }}
      />
      {mode === "2D" ? (
        <p class="sphere-note" role="status">
          {lost ? "The browser took WebGL away: drawn in 2D. " : "Drawn in 2D, without WebGL. "}
          {lost ? (
            <button type="button" class="quiet" onClick={() => setMode("WebGL")}>
              Try WebGL again
            </button>
          ) : null}
        </p>
      ) : null}
    </div>
  );
}

/** Whether the address asks for the 2D canvas, which people with a broken driver need. */
function forced2D(): boolean {
  return new URLSearchParams(globalThis.location?.search ?? "").get("webgl") === "0";
}

interface StageProps extends SphereProps {
  mode: Mode;
  onLost: (wasDrawn: boolean) => void;
}

function Stage({ scene, view, label, mode, onPoint, onChoose, onLost }: StageProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const looked = useRef(() => {});
  const theme = useTheme();
  const now = useRef({ onPoint, onChoose, onLost, theme });
  now.current = { onPoint, onChoose, onLost, theme };

  useLayoutEffect(() => {
    const made = painterOf(canvas.current!, above.current!, mode);
    if (!made) {
      now.current.onLost(false);
      return;
    }
    painter.current = made;
    // Whoever measures frames finds the painter on its element.
    (box.current as Painted).painter = made;
    const look = () => {
      const { width, height } = sizeOf(box.current);
      if (width && height) made.see(view.value, width, height, now.current.theme);
    };
    looked.current = look;
    const taken = (event: Event) => {
      event.preventDefault();
      now.current.onLost(true);
    };
    canvas.current!.addEventListener("webglcontextlost", taken);
    const resized = new ResizeObserver(look);
    resized.observe(box.current!);
    const stopView = view.subscribe(look);
    const element = canvas.current!;
    return () => {
      element.removeEventListener("webglcontextlost", taken);
      resized.disconnect();
      stopView();
      made.dispose();
      painter.current = null;
    };
  }, [mode, view]);

  useLayoutEffect(() => looked.current(), [theme]);
  useLayoutEffect(() => painter.current?.show(scene, !still()), [scene]);
  useLayoutEffect(() => handled(box.current!, view, painter, now), [view]);

  return (
    <div
      ref={box}
      class="sphere-box"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: an application is turned by keys.
      tabIndex={0}
      role="application"
      aria-roledescription="three-dimensional drawing"
      aria-label={`${label} Arrow keys turn it, plus and minus change its size, 0 resets it.`}
      onKeyDown={(event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const next = afterKey(view.value, event.key);
        if (!next) return;
        event.preventDefault();
        view.value = next;
      }}
    >
      <canvas ref={canvas} />
      <canvas ref={above} class="sphere-above" />
    </div>
  );
}

export interface Painted extends HTMLElement {
  painter?: Painter;
}

/** A painter of the wanted kind; null where WebGL is not to be had. */
function painterOf(canvas: HTMLCanvasElement, above: HTMLCanvasElement, mode: Mode): Painter | null {
  const make: Maker = mode === "WebGL" ? webgl : flat;
  const made = new Painter(canvas, above, make);
  return made.kind === null && mode === "WebGL" ? null : made;
}

/** The size of the box; none once the view is gone, as a change of its size may still be on its way. */
function sizeOf(box: HTMLElement | null): { width: number; height: number } {
  return { width: box?.clientWidth ?? 0, height: box?.clientHeight ?? 0 };
}

interface Handlers {
  onPoint: SphereProps["onPoint"];
  onChoose: SphereProps["onChoose"];
}

/** Mouse, touch and wheel: one pointer turns, two change the size; without a pressed button it points. */
function handled(
  box: HTMLElement,
  view: Signal<View>,
  painter: { current: Painter | null },
  handlers: { current: Handlers },
): () => void {
  const down = new Map<number, { x: number; y: number }>();
  let travelled = 0;
  const place = (event: PointerEvent) => {
    const edge = box.getBoundingClientRect();
    return { x: event.clientX - edge.left, y: event.clientY - edge.top };
  };
  const reach = (event: PointerEvent) => (event.pointerType === "touch" ? REACH.touch : REACH.mouse);
  const pressed = (event: PointerEvent) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, place(event));
    travelled = down.size > 1 ? CLICK : 0;
    box.setPointerCapture(event.pointerId);
  };
  const moved = (event: PointerEvent) => {
    const at = place(event);
    const before = down.get(event.pointerId);
    if (!before) {
      handlers.current.onPoint(painter.current?.at(at.x, at.y, reach(event)) ?? -1, at.x, at.y);
      return;
    }
    travelled += Math.abs(at.x - before.x) + Math.abs(at.y - before.y);
    view.value = down.size > 1 ? pinched(view.value, down, event.pointerId, at) : dragged(view.value, before, at, box);
    down.set(event.pointerId, at);
  };
  const released = (event: PointerEvent) => {
    const at = place(event);
    const was = down.delete(event.pointerId);
    if (was && event.type === "pointerup" && travelled < CLICK) {
      handlers.current.onChoose(painter.current?.at(at.x, at.y, reach(event)) ?? -1);
    }
  };
  const left = () => handlers.current.onPoint(-1, 0, 0);
  const wheeled = (event: WheelEvent) => {
    // The page scrolls over a drawing that nobody chose; pinching on a touchpad comes with ctrlKey.
    if (!event.ctrlKey && document.activeElement !== box) return;
    event.preventDefault();
    view.value = zoomed(view.value, Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)));
  };
  const reset = () => {
    view.value = START;
  };
  const listeners = {
    pointerdown: pressed,
    pointermove: moved,
    pointerup: released,
    pointercancel: released,
    pointerleave: left,
    dblclick: reset,
  };
  for (const [name, listener] of Object.entries(listeners)) box.addEventListener(name, listener as EventListener);
  box.addEventListener("wheel", wheeled, { passive: false });
  return () => {
    for (const [name, listener] of Object.entries(listeners)) box.removeEventListener(name, listener as EventListener);
    box.removeEventListener("wheel", wheeled);
  };
}

function dragged(view: View, before: { x: number; y: number }, at: { x: number; y: number }, box: HTMLElement): View {
  const turn = Math.PI / (Math.max(200, Math.min(box.clientWidth, box.clientHeight)) * view.zoom ** 0.5);
  return turned(view, (at.x - before.x) * turn, (at.y - before.y) * turn);
}

function pinched(
  view: View,
  down: Map<number, { x: number; y: number }>,
  id: number,
  at: { x: number; y: number },
): View {
  const other = [...down].find(([pointer]) => pointer !== id)?.[1];
  const before = down.get(id);
  if (!other || !before) return view;
  const apart = (a: { x: number; y: number }) => Math.max(8, Math.hypot(a.x - other.x, a.y - other.y));
  return zoomed(view, apart(at) / apart(before));
}

/** Whether movement is to be left out. */
function still(): boolean {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
