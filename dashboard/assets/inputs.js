/* The browser's own inputs as Dash components: reached by any keyboard, named for any screen reader.
 *
 * window.profsuite_dashboard.Choice (one of several: id, label, options of {label, value}, value), .Slider (id, label,
 * min, max, step, value, and words where a value stands for one of them) and .Toggle (id, label, value).  Each sets its value.
 */
(() => {
  "use strict";
  const create = (...parts) => window.React.createElement(...parts);
  const domId = id => typeof id === "string" ? id : JSON.stringify(id, Object.keys(id).sort());

  function Choice(props) {
    const id = domId(props.id), chosen = props.options.some(option => option.value === props.value);
    const options = props.options.map(option => create("option", {key: option.value, value: option.value}, option.label));
    if (!chosen) options.unshift(create("option", {key: "", value: "", disabled: true}, "Choose…"));
    return create("span", {className: "choice"},
      create("label", {htmlFor: id}, props.label),
      create("select", {id, value: chosen ? props.value : "", onChange: event => props.setProps({value: event.target.value})},
        ...options));
  }

  function Slider(props) {
    const {useState, useRef, useEffect} = window.React;
    const id = domId(props.id), [value, setValue] = useState(props.value), timer = useRef(0);
    useEffect(() => () => clearTimeout(timer.current), []);
    const change = event => {
      const next = Number(event.target.value);
      setValue(next);
      // The server hears of it when the hand rests.
      clearTimeout(timer.current);
      timer.current = setTimeout(() => props.setProps({value: next}), 200);
    };
    const said = props.words ? props.words[value] : value === 1 ? "as it is" : `× ${value}`;
    return create("span", {className: "slider"},
      create("label", {htmlFor: id}, props.label),
      create("output", {htmlFor: id}, said),
      create("input", {id, type: "range", min: props.min, max: props.max, step: props.step, value, onChange: change,
        "aria-valuetext": said}));
  }

  function Toggle(props) {
    const id = domId(props.id);
    return create("span", {className: "toggle"},
      create("input", {id, type: "checkbox", checked: Boolean(props.value),
        onChange: event => props.setProps({value: event.target.checked})}),
      create("label", {htmlFor: id}, props.label));
  }

  window.profsuite_dashboard = Object.assign(window.profsuite_dashboard || {}, {Choice, Slider, Toggle});
})();
