/** The cones by WebGL: one cloud of points, one mesh for each cone, drawn only when asked. */
import {
  BufferAttribute,
  BufferGeometry,
  Color,
  DoubleSide,
  DynamicDrawUsage,
  Camera as Eye,
  Line,
  LineBasicMaterial,
  LineSegments,
  Mesh,
  MeshBasicMaterial,
  Points,
  ShaderMaterial,
  Scene as Stage,
  Vector3,
  WebGLRenderer,
} from "three";
import type { Theme } from "../draw/colour";
import type { Camera } from "./camera";
import { colourOf, rgb } from "./colours";
import { cone, rim, wireframe } from "./geometry";
import { type Drawing, pointSize, type Scene } from "./scene";

// Errors are a cross, other points a disc: the shape tells what colour alone would not.
const VERTEX = `
attribute vec3 tint;
attribute float wrong;
attribute float shown;
uniform float size;
varying vec3 vTint;
varying float vWrong;
uniform vec3 paper;
void main() {
  vWrong = wrong;
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
  // Points behind the centre are paler: 5 is the eye's distance from it.
  vTint = mix(tint, paper, 0.5 * clamp((gl_Position.w - 4.0) / 2.0, 0.0, 1.0));
  gl_PointSize = shown > 0.5 ? size * (wrong > 0.5 ? 1.7 : 1.0) : 0.0;
  if (shown < 0.5) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
}`;
const FRAGMENT = `
varying vec3 vTint;
varying float vWrong;
void main() {
  vec2 at = abs(gl_PointCoord - 0.5);
  if (vWrong > 0.5 ? abs(at.x - at.y) > 0.13 : dot(at, at) > 0.25) discard;
  gl_FragColor = vec4(vTint, 1.0);
}`;

interface Wedge {
  side: Mesh<BufferGeometry, MeshBasicMaterial>;
  edge: Line<BufferGeometry, LineBasicMaterial>;
  axis: Line<BufferGeometry, LineBasicMaterial>;
}

/** A drawing by WebGL on this canvas; null where the browser has none. */
export function webgl(canvas: HTMLCanvasElement): Drawing | null {
  const context = contextOf(canvas);
  return context ? new WebglDrawing(new WebGLRenderer({ canvas, context })) : null;
}

// Asked for here, because three prints errors where there is none. Smooth edges are left out where they halve the frames, in software,
// and where pixels are small anyway.
function contextOf(canvas: HTMLCanvasElement): WebGLRenderingContext | null {
  const antialias = devicePixelRatio < 2 && !inSoftware();
  const wanted = { alpha: false, antialias, powerPreference: "high-performance" } as const;
  return canvas.getContext("webgl2", wanted) as unknown as WebGLRenderingContext | null;
}

let software: boolean | undefined;

/** Whether WebGL is computed by the processor: only a context can tell, and only before it is made is the choice of edges open. */
function inSoftware(): boolean {
  if (software !== undefined) return software;
  const probe = document.createElement("canvas").getContext("webgl2");
  const named = probe?.getExtension("WEBGL_debug_renderer_info");
  const renderer = probe && named ? String(probe.getParameter(named.UNMASKED_RENDERER_WEBGL)) : "";
  probe?.getExtension("WEBGL_lose_context")?.loseContext();
  software = /swiftshader|llvmpipe|softpipe|software|basic render/i.test(renderer);
  return software;
}

class WebglDrawing implements Drawing {
  readonly kind = "WebGL";
  private readonly stage = new Stage();
  private readonly eye = new Eye();
  private readonly material = new ShaderMaterial({
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    uniforms: { size: { value: 6 }, paper: { value: new Vector3(1, 1, 1) } },
  });
  private readonly cloud = new Points(new BufferGeometry(), this.material);
  private readonly sphere = new LineSegments(
    new BufferGeometry(),
    new LineBasicMaterial({ transparent: true, opacity: 0.22 }),
  );
  private wedges: Wedge[] = [];
  private drawn: Partial<Scene> & { dark?: boolean } = {};
  private size = "";

  constructor(private readonly renderer: WebGLRenderer) {
    this.eye.matrixAutoUpdate = false;
    this.eye.matrixWorldAutoUpdate = false;
    this.sphere.geometry.setAttribute("position", new BufferAttribute(wireframe(), 3));
    this.cloud.frustumCulled = false;
    this.stage.add(this.sphere, this.cloud);
  }

  draw(scene: Scene, camera: Camera, theme: Theme, ratio: number): void {
    this.resize(camera, ratio);
    this.renderer.setClearColor(new Color(theme.paper), 1);
    this.sphere.material.color.set(theme.muted);
    this.points(scene, theme);
    this.cones(scene, theme);
    this.material.uniforms.size!.value = pointSize(scene.shown.length, camera) * ratio;
    this.material.uniforms.paper!.value.set(...rgb(theme.paper));
    this.eye.matrixWorldInverse.fromArray(camera.view);
    this.eye.projectionMatrix.fromArray(camera.projection);
    this.renderer.render(this.stage, this.eye);
    this.drawn = { ...scene, dark: theme.dark };
  }

  private resize(camera: Camera, ratio: number): void {
    const size = `${camera.width} ${camera.height} ${ratio}`;
    if (size === this.size) return;
    this.size = size;
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(camera.width, camera.height, false);
  }

  private points(scene: Scene, theme: Theme): void {
    const geometry = this.cloud.geometry;
    if (scene.positions.length !== this.drawn.positions?.length) {
      geometry.dispose();
      this.cloud.geometry = emptyCloud(scene.shown.length);
      this.drawn = {};
    }
    const { position, tint, wrong, shown } = this.cloud.geometry.attributes as Record<string, BufferAttribute>;
    if (scene.positions !== this.drawn.positions) refill(position!, scene.positions);
    if (scene.shown !== this.drawn.shown) refill(shown!, scene.shown);
    if (scene.wrong !== this.drawn.wrong) refill(wrong!, scene.wrong);
    if (scene.classes !== this.drawn.classes || theme.dark !== this.drawn.dark) {
      const colours = new Map<number, number[]>();
      scene.classes.forEach((label, i) => {
        const known = colours.get(label) ?? rgb(colourOf(label, theme.dark));
        colours.set(label, known);
        tint!.setXYZ(i, known[0]!, known[1]!, known[2]!);
      });
      tint!.needsUpdate = true;
    }
  }

  private cones(scene: Scene, theme: Theme): void {
    const { cones, visible, dark } = this.drawn;
    if (scene.cones === cones && scene.visible === visible && theme.dark === dark) return;
    if (scene.cones.length !== this.wedges.length) {
      this.clearWedges();
      this.wedges = scene.cones.map(() => newWedge());
      for (const { side, edge, axis } of this.wedges) this.stage.add(side, edge, axis);
    }
    scene.cones.forEach(({ axis, degrees }, c) => {
      const wedge = this.wedges[c]!;
      const mesh = cone(axis, degrees);
      const edge = rim(axis, degrees);
      const there = scene.visible[c] === true;
      const colour = colourOf(c, theme.dark);
      for (const part of [wedge.side, wedge.edge, wedge.axis]) part.material.color.set(colour);
      wedge.side.visible = there && mesh !== null;
      wedge.edge.visible = there && edge !== null;
      wedge.axis.visible = there && axis.every(Number.isFinite);
      wedge.side.material.opacity = theme.dark ? 0.16 : 0.12;
      if (mesh) shape(wedge.side.geometry, mesh.positions, mesh.indices);
      if (edge) shape(wedge.edge.geometry, edge);
      if (wedge.axis.visible) shape(wedge.axis.geometry, Float32Array.of(0, 0, 0, ...axis));
    });
  }

  private clearWedges(): void {
    for (const { side, edge, axis } of this.wedges) {
      for (const part of [side, edge, axis]) {
        this.stage.remove(part);
        part.geometry.dispose();
        part.material.dispose();
      }
    }
    this.wedges = [];
  }

  dispose(): void {
    this.clearWedges();
    this.cloud.geometry.dispose();
    this.material.dispose();
    this.sphere.geometry.dispose();
    this.sphere.material.dispose();
    this.renderer.dispose();
    // Browsers keep some sixteen contexts and take the oldest away, which may be one that is seen.
    if (!this.renderer.getContext().isContextLost()) this.renderer.forceContextLoss();
  }
}

function emptyCloud(count: number): BufferGeometry {
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(new Float32Array(count * 3), 3).setUsage(DynamicDrawUsage));
  geometry.setAttribute("tint", new BufferAttribute(new Float32Array(count * 3), 3));
  geometry.setAttribute("wrong", new BufferAttribute(new Float32Array(count), 1));
  geometry.setAttribute("shown", new BufferAttribute(new Float32Array(count), 1));
  return geometry;
}

function refill(attribute: BufferAttribute, values: ArrayLike<number>): void {
  attribute.array.set(values);
  attribute.needsUpdate = true;
}

function newWedge(): Wedge {
  const side = new MeshBasicMaterial({ transparent: true, side: DoubleSide, depthWrite: false });
  return {
    side: uncut(new Mesh(new BufferGeometry(), side)),
    edge: uncut(new Line(new BufferGeometry(), new LineBasicMaterial())),
    axis: uncut(new Line(new BufferGeometry(), new LineBasicMaterial())),
  };
}

// Its bounds would be computed anew whenever a layer moves it; it is always in sight.
function uncut<T extends { frustumCulled: boolean }>(part: T): T {
  part.frustumCulled = false;
  return part;
}

function shape(geometry: BufferGeometry, positions: Float32Array, indices?: Uint16Array): void {
  const known = geometry.getAttribute("position") as BufferAttribute | undefined;
  if (known?.array.length === positions.length) {
    refill(known, positions);
    return;
  }
  geometry.setAttribute("position", new BufferAttribute(positions, 3).setUsage(DynamicDrawUsage));
  if (indices) geometry.setIndex(new BufferAttribute(indices, 1));
}
