// The lens works without this. With it, pages follow what happens and the slider answers at once.
(() => {
  'use strict';
  const one = (selector, root = document) => root.querySelector(selector);

  // Moving the slider over calls, or choosing a filter, needs no button. Pages renew their parts, so no field needs a listener.
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-go]')) event.target.form.requestSubmit();
  });

  // "/" goes to the search field; "j" and "k" go through the calls of a conversation.
  document.addEventListener('keydown', (event) => {
    const typing = event.target.closest('input, textarea, select, [contenteditable]');
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = { '/': '#q', j: 'a[rel=next]', k: 'a[rel=prev]' }[event.key];
    const found = target && one(target);
    if (!found) return;
    event.preventDefault();
    if (event.key === '/') found.focus(); else found.click();
  });

  // Parts that cost more than the first paint may take are fetched after it.
  const fill = async (part) => {
    part.setAttribute('aria-busy', 'true');
    try {
      const answer = await fetch(part.dataset.part, { headers: { accept: 'text/html' }, credentials: 'same-origin' });
      if (!answer.ok) return;
      // Parsed in a document of its own, where nothing runs; the server has escaped every text already.
      const parsed = new DOMParser().parseFromString(await answer.text(), 'text/html');
      part.replaceChildren(...parsed.body.childNodes);
    } finally { part.removeAttribute('aria-busy'); }
  };
  for (const part of document.querySelectorAll('[data-part]')) fill(part);

  // Live: something was written, so what shows it is fetched again.
  const live = one('[data-live]');
  if (!live || !window.EventSource) return;
  const status = one('#live');
  let source = null;
  let waiting = 0;
  const refresh = async () => {
    waiting = 0;
    const answer = await fetch(location.href, { credentials: 'same-origin' });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    for (const part of document.querySelectorAll('[data-fresh]')) {
      const other = fresh.querySelector('[data-fresh="' + part.dataset.fresh + '"]');
      if (!other || part.isEqualNode(other)) continue;
      const open = new Set([...part.querySelectorAll('details[open][id]')].map((details) => details.id));
      const known = new Set([...part.querySelectorAll('[id]')].map((child) => child.id));
      // An answer that is being written is not taken away from under the hand that writes it.
      const fields = () => [...part.querySelectorAll('textarea[id], input[id]')];
      const written = new Map(fields().filter((field) => field.value !== field.defaultValue).map((field) => [field.id, field.value]));
      const focus = part.contains(document.activeElement) && document.activeElement.id;
      part.replaceChildren(...other.childNodes);
      for (const field of fields()) {
        if (written.has(field.id)) field.value = written.get(field.id);
        if (focus && field.id === focus) field.focus();
      }
      for (const details of part.querySelectorAll('details[id]')) if (open.has(details.id)) details.open = true;
      for (const child of part.querySelectorAll('li[id], tr[id]')) if (!known.has(child.id)) child.classList.add('fresh');
      for (const inner of part.querySelectorAll('[data-part]')) fill(inner);
    }
  };
  const changed = () => { if (!waiting) waiting = setTimeout(refresh, 250); };
  const tell = (text) => { if (status) status.textContent = text; };
  const listen = () => {
    source = new EventSource(live.dataset.live);
    // `Listening` comes first: what happened while the page was on its way is looked up then.
    for (const name of ['Listening', 'ConversationRecorded', 'ReplyReceived', 'RequestSent', 'RunChanged']) source.addEventListener(name, changed);
    source.addEventListener('open', () => tell('live'));
    source.addEventListener('error', () => tell('not live'));
  };
  const rest = () => { if (source) source.close(); source = null; };
  const wake = () => { if (!source && !document.hidden) listen(); };
  // Browsers keep six connections to one server, so a page in the background does not hold one.
  document.addEventListener('visibilitychange', () => { if (document.hidden) rest(); else wake(); });
  addEventListener('pagehide', rest);
  addEventListener('pageshow', (event) => { if (event.persisted) wake(); });
  if (!document.hidden) listen();
})();
