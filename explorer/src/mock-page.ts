/** The page with made-up replies, for work on the front end alone. */
import { MockHost } from "./mock";
import { mount } from "./mount";

const element = document.getElementById("explorer");
if (element) mount(element, new MockHost(), { address: true });
