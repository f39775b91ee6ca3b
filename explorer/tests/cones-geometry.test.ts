import { describe, expect, test } from "vitest";
import {
  afterKey,
  cameraOf,
  product,
  project,
  projectAll,
  START,
  turned,
  type View,
  zoomed,
} from "../src/cones/camera";
import { across, cone, drawnAngle, rim, type Vector, wireframe } from "../src/cones/geometry";
import { farthestFirst, hit } from "../src/cones/hit";
import { type Box, free } from "../src/cones/overlay";

const FRONT: View = { yaw: 0, pitch: 0, zoom: 1 };
const AXES: Vector[] = [
  [1, 0, 0],
  [0, -1, 0],
  [0.3, -0.5, 0.7],
  [0.01, 0.02, -0.4],
];
const ANGLES = [5, 45, 90, 130];

function points(positions: Float32Array): Vector[] {
  return Array.from(
    { length: positions.length / 3 },
    (_, i) => [...positions.subarray(i * 3, i * 3 + 3)] as unknown as Vector,
  );
}

describe("a cone", () => {
  test.each(AXES.flatMap((axis) => ANGLES.map((degrees) => [axis, degrees] as const)))(
    "has its rim on the unit sphere, at its angle from its axis: %j, %d°",
    (axis, degrees) => {
      for (const point of points(rim(axis, degrees)!)) {
        expect(Math.hypot(...point)).toBeCloseTo(1, 5);
        expect(drawnAngle(point, axis)!).toBeCloseTo(degrees, 3);
      }
    },
  );

  test("has its tip at the centre and closes around its axis", () => {
    const mesh = cone([0, 0, 1], 30, 16)!;
    expect(points(mesh.positions)[0]).toEqual([0, 0, 0]);
    expect(mesh.positions.length).toBe(17 * 3);
    const edges = Array.from({ length: 16 }, (_, i) => [...mesh.indices.subarray(i * 3, i * 3 + 3)]);
    expect(edges.every(([tip]) => tip === 0)).toBe(true);
    expect(edges.map(([, from]) => from).sort()).toEqual(edges.map(([, , to]) => to).sort());
    expect(Math.max(...mesh.indices)).toBe(16);
  });

  test("is not drawn without a direction or without an angle", () => {
    expect(cone([0, 0, 0], 30)).toBeNull();
    expect(cone([Number.NaN, 0, 1], 30)).toBeNull();
    expect(cone([0, 0, 1], Number.NaN)).toBeNull();
  });
});

test("the frame around an axis is orthonormal", () => {
  for (const axis of AXES) {
    const frame = across(axis)!;
    frame.forEach((a, i) => {
      frame.forEach((b, j) => {
        expect(a[0] * b[0] + a[1] * b[1] + a[2] * b[2]).toBeCloseTo(i === j ? 1 : 0, 6);
      });
    });
  }
});

test("the wireframe lies on the unit sphere, each line beginning where another one ends or at a pole", () => {
  const all = points(wireframe(4, 2, 8));
  for (const point of all) expect(Math.hypot(...point)).toBeCloseTo(1, 5);
  expect(all.length).toBe(2 * (4 * 4 + 2 * 8));
});

test("an angle between drawn vectors does not depend on their lengths", () => {
  expect(drawnAngle([2, 0, 0], [0, 0.1, 0])).toBeCloseTo(90);
  expect(drawnAngle([1, 0, 0], [1, 0, 0])).toBeCloseTo(0);
  expect(drawnAngle([0, 0, 0], [1, 0, 0])).toBeNull();
});

describe("the camera", () => {
  test("sees the centre in the middle, the first axis to the right and the second one up", () => {
    const camera = cameraOf(FRONT, 400, 300);
    expect(project(camera, 0, 0, 0)).toMatchObject({ x: 200, y: 150 });
    expect(project(camera, 1, 0, 0).x).toBeGreaterThan(200);
    expect(project(camera, 1, 0, 0).y).toBeCloseTo(150);
    expect(project(camera, 0, 1, 0).y).toBeLessThan(150);
    expect(project(camera, 0, 0, 1).depth).toBeCloseTo(-1);
  });

  test.each([
    [600, 400],
    [320, 560],
  ])("shows the whole unit sphere at zoom 1, from everywhere, on %d × %d", (width, height) => {
    const sphere = wireframe(8, 5, 16);
    for (const yaw of [0, 1, 2.5]) {
      for (const pitch of [-1.5, 0, 0.7]) {
        for (const [x, y] of points(projectAll(cameraOf({ yaw, pitch, zoom: 1 }, width, height), sphere))) {
          expect(x).toBeGreaterThan(0);
          expect(x).toBeLessThan(width);
          expect(y).toBeGreaterThan(0);
          expect(y).toBeLessThan(height);
        }
      }
    }
  });

  test("does not change lengths when it turns", () => {
    const { view } = cameraOf({ yaw: 1.1, pitch: -0.4, zoom: 2 }, 100, 100);
    const turn = view.slice();
    turn.fill(0, 12, 15);
    const transposed = Float32Array.from(turn, (_, i) => turn[(i % 4) * 4 + Math.floor(i / 4)]!);
    product(transposed, turn).forEach((value, i) => {
      expect(value).toBeCloseTo(i % 5 === 0 ? 1 : 0, 5);
    });
  });

  test("gives WebGL what the 2D canvas computes: clip space divided by w is the place on the canvas", () => {
    const camera = cameraOf({ yaw: 0.5, pitch: 0.3, zoom: 1.4 }, 640, 480);
    const [x, y, z] = [0.2, -0.7, 0.4];
    const { view, projection } = camera;
    const through = (m: Float32Array, v: number[]) =>
      [0, 1, 2, 3].map((row) => v.reduce((sum, value, column) => sum + m[column * 4 + row]! * value, 0));
    const [cx, cy, , w] = through(projection, through(view, [x, y, z, 1])) as [number, number, number, number];
    const spot = project(camera, x, y, z);
    expect(((cx / w + 1) / 2) * 640).toBeCloseTo(spot.x, 3);
    expect(((1 - cy / w) / 2) * 480).toBeCloseTo(spot.y, 3);
  });

  test("is turned by arrows, never past a pole, and reset by 0", () => {
    expect(afterKey(FRONT, "ArrowRight")!.yaw).toBeGreaterThan(0);
    expect(afterKey(FRONT, "ArrowLeft")!.yaw).toBe(-afterKey(FRONT, "ArrowRight")!.yaw);
    expect(turned(FRONT, 0, 10).pitch).toBeLessThan(Math.PI / 2);
    expect(turned(FRONT, 0, -10).pitch).toBeGreaterThan(-Math.PI / 2);
    expect(afterKey({ yaw: 3, pitch: 1, zoom: 4 }, "0")).toEqual(START);
    expect(afterKey(FRONT, "a")).toBeNull();
  });

  test("comes nearer and goes away within bounds", () => {
    expect(zoomed(FRONT, 2).zoom).toBe(2);
    expect(zoomed(FRONT, 1e9).zoom).toBe(zoomed(FRONT, 1e12).zoom);
    expect(zoomed(FRONT, 1e-9).zoom).toBeGreaterThan(0);
  });
});

test("names of classes that point the same way stand one above the other", () => {
  const taken: Box[] = [];
  for (let i = 0; i < 6; i++) {
    const box = { x: 10, y: 50, width: 40 };
    taken.push({ ...box, y: free(box, taken, 0, 300) });
  }
  const heights = taken.map(({ y }) => y).sort((a, b) => a - b);
  heights.slice(1).forEach((y, i) => {
    expect(y - heights[i]!).toBeGreaterThanOrEqual(19);
  });
  expect(taken[0]!.y).toBe(50);
  expect(free({ x: 200, y: 50, width: 40 }, taken, 0, 300)).toBe(50);
});

describe("hit testing", () => {
  const spots = Float32Array.from([10, 10, 0.5, 14, 10, -0.5, 10, 10, -0.9, 90, 90, 0]);

  test("finds the nearest point, of two at one place the one in front", () => {
    const shown = Uint8Array.from([1, 1, 1, 1]);
    expect(hit(spots, shown, 10, 10, 8)).toBe(2);
    expect(hit(spots, shown, 13, 10, 8)).toBe(1);
    expect(hit(spots, shown, 90, 92, 8)).toBe(3);
  });

  test("finds nothing beyond its reach, and nothing that is hidden", () => {
    expect(hit(spots, Uint8Array.from([1, 1, 1, 1]), 50, 50, 8)).toBe(-1);
    expect(hit(spots, Uint8Array.from([1, 1, 0, 1]), 10, 10, 8)).toBe(0);
    expect(hit(spots, Uint8Array.from([0, 0, 0, 0]), 10, 10, 8)).toBe(-1);
  });

  test("orders what is shown from far to near", () => {
    const order = [...farthestFirst(spots, Uint8Array.from([1, 1, 1, 1]))];
    expect(order).toEqual([0, 3, 1, 2]);
    expect([...farthestFirst(spots, Uint8Array.from([0, 1, 0, 1]))]).toEqual([3, 1]);
  });
});
