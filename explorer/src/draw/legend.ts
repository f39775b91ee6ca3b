/** The scale under a picture that is saved: a file has no page around it that tells what its colours are. */
import type { Theme } from "./colour";
import type { Picture } from "./paint";
import { type Scale, stopsOf } from "./scale";
import { figure } from "./text";

const [BAR, ROOM] = [140, 40];

/** The picture with its scale below: what is shown, the lowest and the highest number. */
export function withScale(picture: Picture, scale: Scale, name: string, theme: Theme): Picture {
  const stops = stopsOf(scale);
  const top = picture.height + 14;
  return {
    width: Math.max(picture.width, BAR + 260),
    height: picture.height + ROOM,
    draw: (paint) => {
      picture.draw(paint);
      stops.forEach(({ colour }, i) => {
        paint.rect(40 + (i * BAR) / stops.length, top, BAR / stops.length + 0.5, 12, colour);
      });
      const style = { fill: theme.muted, size: 12 } as const;
      paint.text(34, top + 6, scale.signed ? figure(-scale.most) : "0", { ...style, anchor: "end" });
      paint.text(46 + BAR, top + 6, `${figure(scale.most)}  ${name}`, style);
    },
  };
}
