// The lens works without this. With it, pages follow what happens, keys go through them, and times are the reader's own.
(() => {
  'use strict';
  const one = (selector, root = document) => root.querySelector(selector);
  document.documentElement.classList.add('js');

  // Times are the reader's own. Those of columns say how long ago it was, and the exact time where one points at them.
  const words = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto', style: 'short' });
  const steps = [['second', 60], ['minute', 60], ['hour', 24], ['day', 30], ['month', 12], ['year', Infinity]];
  const ago = (moment) => {
    let left = (moment - Date.now()) / 1000;
    for (const [unit, most] of steps) {
      if (Math.abs(left) < most) return words.format(Math.round(left), unit);
      left /= most;
    }
  };
  const two = (number) => String(number).padStart(2, '0');
  const exact = (at) => at.getFullYear() + '-' + two(at.getMonth() + 1) + '-' + two(at.getDate()) + ' ' + two(at.getHours()) + ':' + two(at.getMinutes()) + ':' + two(at.getSeconds());
  const local = (root) => {
    for (const time of root.querySelectorAll('time[datetime]')) {
      const moment = new Date(time.getAttribute('datetime'));
      if (Number.isNaN(moment.getTime())) continue;
      const isAgo = time.classList.contains('ago');
      time.textContent = isAgo ? ago(moment) : exact(moment);
      time.title = isAgo ? exact(moment) : time.getAttribute('datetime');
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

  // A long text that is open can be searched: matches are painted, and Enter goes to the next one.
  const paints = window.Highlight && CSS.highlights;
  const ranges = (root, word) => {
    const found = [];
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node && found.length < 1000; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      for (let at = text.indexOf(word); at >= 0 && found.length < 1000; at = text.indexOf(word, at + word.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, at + word.length);
        found.push(range);
      }
    }
    return found;
  };
  const finder = (fold) => {
    const field = document.createElement('input');
    const count = document.createElement('span');
    const line = document.createElement('div');
    Object.assign(field, { type: 'search', placeholder: 'Find in this text', className: 'find' });
    field.setAttribute('aria-label', 'Find in this text');
    count.className = 'soft small';
    count.setAttribute('role', 'status');
    line.className = 'finder';
    line.append(field, count);
    const inside = one(':scope > .in', fold);
    inside.prepend(line);
    let found = [];
    let next = 0;
    const look = () => {
      const word = field.value.toLowerCase();
      // What waits behind "show all" is looked through too.
      if (word) for (const more of inside.querySelectorAll('details.more')) more.open = true;
      found = word ? ranges(inside, word) : [];
      next = 0;
      if (paints) CSS.highlights.set('found', new Highlight(...found));
      count.textContent = word ? (found.length === 1000 ? '1,000 or more' : found.length) + (found.length === 1 ? ' match' : ' matches') : '';
    };
    field.addEventListener('input', look);
    field.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || !found.length) return;
      event.preventDefault();
      const range = found[next % found.length];
      next += 1;
      range.startContainer.parentElement.scrollIntoView({ block: 'nearest' });
      const box = range.getBoundingClientRect();
      if (box.top < 80 || box.bottom > innerHeight) scrollBy(0, box.top - innerHeight / 2);
      count.textContent = next + ' of ' + found.length;
      if (next === found.length) next = 0;
    });
  };
  document.addEventListener('toggle', (event) => {
    const fold = event.target;
    if (fold.open && fold.matches('.fold') && !one(':scope > .in > .finder', fold) && one(':scope details.more', fold)) finder(fold);
  }, true);

  // Files are dropped anywhere on the form that takes them.
  for (const form of document.querySelectorAll('form[data-drop]')) {
    const field = one('input[type=file]', form);
    const told = one('[data-chosen]', form);
    const name = () => { told.textContent = [...field.files].map((file) => file.name).join(', '); };
    field.addEventListener('change', name);
    for (const kind of ['dragenter', 'dragover']) form.addEventListener(kind, (event) => { event.preventDefault(); form.classList.add('over'); });
    for (const kind of ['dragleave', 'drop']) form.addEventListener(kind, () => form.classList.remove('over'));
    form.addEventListener('drop', (event) => {
      if (!event.dataTransfer.files.length) return;
      event.preventDefault();
      field.files = event.dataTransfer.files;
      name();
    });
  }

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
  let busy = false;
  let missed = false;
  const refresh = async () => {
    waiting = 0;
    // One look at a time; what happens meanwhile is looked up after it.
    if (busy) { missed = true; return; }
    busy = true;
    try { await renew(); } finally {
      busy = false;
      if (missed) { missed = false; changed(); }
    }
  };
  const renew = async () => {
    const answer = await fetch(location.href, { credentials: 'same-origin' });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
    local(fresh);
    const others = fresh.querySelector('[data-live-of]');
    if (others && one('[data-live-of]')) one('[data-live-of]').dataset.liveOf = others.dataset.liveOf;
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
  // A page of a session hears of all of them. A conversation it does not know may be a new one of its own: that is looked up once.
  const foreign = new Set();
  const heard = (event) => {
    const mine = one('[data-live-of]');
    let about = null;
    try { about = mine && JSON.parse(event.data).conversation; } catch { about = null; }
    if (about && !mine.dataset.liveOf.split(' ').includes(about)) {
      if (foreign.has(about)) return;
      foreign.add(about);
    }
    changed();
  };
  const tell = (text) => { if (status) status.textContent = text; };
  const listen = () => {
    source = new EventSource(live.dataset.live);
    // `Listening` comes first: what happened while the page was on its way is looked up then.
    for (const name of ['Listening', 'ConversationRecorded', 'ReplyReceived', 'RequestSent', 'RunChanged']) source.addEventListener(name, heard);
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
