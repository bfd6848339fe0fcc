"""What must hold on every page of the lens."""

# What must hold on every page, whatever it shows. Gives the list of what does not.
HOLDS = r"""
(() => {
  const wrong = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  if (window.hit) wrong.push('a script of somebody else ran');
  for (const node of all('iframe, object, embed, img:not([src^="/lens/conversations/"]), video, audio, base, link:not([href^="/lens/assets/"]), style, script:not([src^="/lens/assets/"]), meta[http-equiv], template, math, form:not([action^="/lens"], [method=dialog])'))
    wrong.push('not ours: ' + node.outerHTML.slice(0, 100));
  for (const node of all('*')) for (const attribute of node.attributes)
    if (/^on/i.test(attribute.name) || attribute.name === 'style') wrong.push('attribute ' + attribute.name + ' on ' + node.tagName);
  // Only what somebody said in markdown may lead elsewhere, and then without telling where the person came from.
  const leads = (link) => link.closest('.md') && /^(https?|mailto):/.test(link.href) && link.rel === 'noopener noreferrer nofollow';
  for (const link of all('a[href]')) if (new URL(link.href, location).origin !== location.origin && !leads(link)) wrong.push('link to ' + link.href);
  for (const name of ['main', 'header.top', 'h1']) if (all(name).length !== 1) wrong.push(name + ': ' + all(name).length);
  const ids = all('[id]').map((node) => node.id);
  for (const id of new Set(ids.filter((id, place) => ids.indexOf(id) !== place))) wrong.push('twice: #' + id);
  const named = (node) => (node.textContent.trim() || node.getAttribute('aria-label') || node.title || '').length > 0;
  for (const node of all('a[href], button, summary')) if (!named(node)) wrong.push('no name: ' + node.outerHTML.slice(0, 100));
  for (const field of all('input:not([type=hidden]), select, textarea')) if (!field.labels.length && !field.getAttribute('aria-label')) wrong.push('no label: ' + field.outerHTML.slice(0, 100));
  for (const picture of all('svg')) if (picture.getAttribute('aria-hidden') !== 'true' && !picture.getAttribute('aria-label')) wrong.push('an unnamed picture');
  for (const table of all('table')) if (!table.querySelector('th[scope]')) wrong.push('a table without headings');
  if (!document.documentElement.lang) wrong.push('no language');
  if (document.documentElement.scrollWidth > innerWidth + 1) wrong.push('wider than the window: ' + document.documentElement.scrollWidth);

  // Contrast of what is read, by the formula of WCAG 2.
  const light = (color) => {
    const [r, g, b] = color.map((part) => { const c = part / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const low = new Set();
  for (const node of all('p, a, td, th, dt, dd, h1, h2, span, label, button, summary, code, pre, time, li')) {
    if (![...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()) || !node.getClientRects().length) continue;
    if (node.closest('.fate-dropped .body, .fate-later .body, [aria-hidden=true], .out, .skip')) continue;
    const [front, back] = [light(parse(getComputedStyle(node).color).slice(0, 3)), light(behind(node))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < 4.5) low.add(node.tagName + '.' + node.className + ' ' + ratio.toFixed(2));
  }
  for (const one of low) wrong.push('contrast: ' + one);
  return wrong;
})()
"""
