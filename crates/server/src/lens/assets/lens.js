// The lens works without this. With it, pages follow what happens, keys go through them, and times are the reader's own.
(() => {
  'use strict';
  const one = (selector, root = document) => root.querySelector(selector);
  document.documentElement.classList.add('js');

  // Times of columns: how long ago, and the exact local time where one points at them.
  const words = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
  const steps = [['second', 60], ['minute', 60], ['hour', 24], ['day', 30], ['month', 12], ['year', Infinity]];
  const ago = (moment) => {
    let left = (moment - Date.now()) / 1000;
    for (const [unit, most] of steps) {
      if (Math.abs(left) < most) return words.format(Math.round(left), unit);
      left /= most;
    }
  };
  const local = (root) => {
    for (const time of root.querySelectorAll('time.ago[datetime]')) {
      const moment = new Date(time.getAttribute('datetime'));
      if (Number.isNaN(moment.getTime())) continue;
      time.textContent = ago(moment);
      time.title = moment.toLocaleString();
    }
  };
  local(document);

  // Moving the slider over calls, or choosing a filter, needs no button. Pages renew their parts, so no field needs a listener.
  document.addEventListener('change', (event) => {
    if (event.target.matches('[data-go]')) event.target.form.requestSubmit();
  });

  // A word at the end of the page says what was done, to the eye and to a screen reader.
  const told = document.createElement('div');
  told.className = 'told';
  told.setAttribute('role', 'status');
  document.body.append(told);
  let telling = 0;
  const say = (text) => {
    told.textContent = text;
    clearTimeout(telling);
    telling = setTimeout(() => { told.textContent = ''; }, 2500);
  };

  const copy = async (text, what) => {
    try {
      await navigator.clipboard.writeText(text);
      say(what + ' copied');
    } catch { say('The browser does not let this page copy'); }
  };
  document.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.opens) { one('#' + button.dataset.opens).showModal(); return; }
    if (button.dataset.copy) copy(button.dataset.copy, button.dataset.what);
    const from = button.dataset.copyText && document.getElementById(button.dataset.copyText);
    if (from) copy(one('.body', from).innerText, 'Text');
  });

  // "?" lists the keys. Entries and rows are gone through with "j" and "k", calls with the arrows.
  const stops = () => [...document.querySelectorAll('.timeline > li, .rows tbody tr, .hits > li, .breaks > li')];
  const here = () => stops().find((stop) => stop.contains(document.activeElement)) || one('.timeline > li:target');
  const step = (by) => {
    const all = stops();
    if (!all.length) return false;
    const now = all.indexOf(here());
    const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, now + by))];
    next.tabIndex = -1;
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: 'nearest' });
    return true;
  };
  const follow = (selector) => { const found = one(selector); if (found) found.click(); return !!found; };
  const open = () => {
    const stop = document.activeElement;
    if (!stops().includes(stop)) return false;
    const found = one('summary, a.name, a[href]', stop);
    if (found) found.click();
    return !!found;
  };
  const handle = () => {
    const stop = here();
    const button = stop && one('[data-copy][data-what="Handle"]', stop);
    if (button) button.click();
    return !!button;
  };
  let before = '';
  const keys = {
    '?': () => { one('#keys').showModal(); return true; },
    '/': () => { const field = one('#words') || one('#q'); if (field) field.focus(); return !!field; },
    j: () => step(1),
    k: () => step(-1),
    Enter: open,
    ArrowRight: () => follow('main a[rel=next]'),
    ArrowLeft: () => follow('main a[rel=prev]'),
    c: () => { location.href = (one('a[data-key=c]') || { href: '/lens/simulate' }).href; return true; },
    '.': handle,
    s: () => { if (before !== 'g') return false; location.href = '/lens'; return true; },
  };
  document.addEventListener('keydown', (event) => {
    const busy = event.target.closest('input, textarea, select, [contenteditable], dialog[open]');
    if (busy || event.ctrlKey || event.metaKey || event.altKey) return;
    // What scrolls sideways keeps its arrows.
    if (event.key.startsWith('Arrow') && event.target.closest('[role=region]')) return;
    const found = keys[event.key];
    if (found && found()) event.preventDefault();
    before = event.key;
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
      local(part);
    } finally { part.removeAttribute('aria-busy'); }
  };
  for (const part of document.querySelectorAll('[data-part]')) fill(part);

  // Live: something was written, so what shows it is fetched again.
  const live = one('[data-live]');
  if (!live || !window.EventSource) return;
  const status = one('#live');
  let source = null;
  let waiting = 0;
  // The first thing in the window that has a name: it stays where it is while things above it change.
  const anchor = () => {
    if (scrollY < 1) return null;
    const shown = [...document.querySelectorAll('[data-fresh] [id]')].find((node) => node.getBoundingClientRect().bottom > 80);
    return shown && { id: shown.id, top: shown.getBoundingClientRect().top };
  };
  const refresh = async () => {
    waiting = 0;
    const answer = await fetch(location.href, { credentials: 'same-origin' });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    local(fresh);
    const read = anchor();
    for (const part of document.querySelectorAll('[data-fresh]')) {
      const other = fresh.querySelector('[data-fresh="' + part.dataset.fresh + '"]');
      // What was fetched after the first paint is fetched again by itself.
      if (other && part.dataset.part) { fill(part); continue; }
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
      // Whoever goes through the entries with the keyboard stays at theirs.
      const stop = focus && document.getElementById(focus);
      if (stop && document.activeElement !== stop && stop.matches('li, tr')) { stop.tabIndex = -1; stop.focus({ preventScroll: true }); }
      for (const details of part.querySelectorAll('details[id]')) if (open.has(details.id)) details.open = true;
      for (const child of part.querySelectorAll('li[id], tr[id]')) if (!known.has(child.id)) child.classList.add('fresh');
      for (const inner of part.querySelectorAll('[data-part]')) fill(inner);
    }
    const again = read && document.getElementById(read.id);
    if (again) scrollBy(0, again.getBoundingClientRect().top - read.top);
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
