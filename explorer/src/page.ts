/** The page of the server and the page on disk: reads from its element which of the two it is. */
import type { Host } from "./hosts/host";
import { addressOf, SocketHost } from "./hosts/socket";
import { repliesOf, StaticHost } from "./hosts/static";
import { mount } from "./mount";

function hostOf(element: HTMLElement): Host {
  if (element.dataset.host !== "static") return new SocketHost(addressOf(location, element.dataset.folder));
  const { frames, notes, command } = repliesOf(document.getElementById("replies")?.textContent ?? "{}");
  return new StaticHost(frames, notes, command);
}

const element = document.getElementById("explorer");

// The token came in the query and is in a cookie of the page's folder now: an address that is copied or seen does not hold it.
if (location.protocol !== "file:" && location.search)
  history.replaceState(null, "", (element?.dataset.folder ?? location.pathname) + location.hash);

if (element) mount(element, hostOf(element), { address: true });
