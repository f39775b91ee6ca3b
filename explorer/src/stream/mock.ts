/** A made-up path to an answer: parts that sum to a difference with a rest. */
import { type Answering, answerOf, random, tensor } from "../mock";
import { type Input, ReplyError } from "../protocol";

export const streamAnswers: Record<string, Answering> = {
  stream: (input: Input, host) => {
    const info = host.model(input.model);
    if (!info.attributes) throw new ReplyError("The answer of this model cannot be split: it has no classifier");
    const next = random(input.text);
    const centred = () => next() - 0.45;
    const { logits, predicted } = answerOf(input, info);
    const other = logits.map((_, i) => i).filter((i) => i !== predicted)[0] ?? 0;
    const difference = (logits[predicted ?? 0] ?? 0) - (logits[other] ?? 0);
    const heads = tensor([info.layers, Math.max(...info.heads)], () => centred() * 0.4);
    const forward = tensor([info.layers], () => centred() * 0.6);
    const [start, bias] = [centred() * 0.5, centred() * 0.3];
    const known = [...heads.values, ...forward.values, start, bias].reduce((sum, value) => sum + value, 0);
    const words = input.text.split(/\s+/).filter(Boolean).length + 2;
    return {
      data: { class: predicted, other, difference, rest: difference - known, labels: info.labels },
      arrays: {
        embeddings: tensor([1], () => start),
        heads,
        forward,
        bias: tensor([1], () => bias),
        tokens: tensor([words], () => centred()),
        towards: tensor(
          [info.layers + 1, info.labels.length],
          (i) => (i % 2 ? 1 : -1) * 0.08 * Math.floor(i / 2) + 0.1,
        ),
      },
    };
  },
};
