/** The widget of notebooks, as anywidget expects it. */
import { WidgetHost, type WidgetModel } from "./hosts/widget";
import { mount } from "./mount";

function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const host = new WidgetHost(model);
  const unmount = mount(el, host);
  return () => {
    unmount();
    host.close();
  };
}

export default { render };
