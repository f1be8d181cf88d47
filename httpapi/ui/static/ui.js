// What pages gain by script; every page works without. The elements it acts
// on are marked by data attributes, listed in the package's documentation.
"use strict";

(() => {
  const $ = (selector, root = document) => root.querySelector(selector);
  const each = (selector, act, root = document) => root.querySelectorAll(selector).forEach(act);
  const lang = document.documentElement.lang;
  const words = () => $("#live")?.dataset ?? {};
  const say = (text) => {
    const live = $("#live");
    if (live && live.textContent !== text) live.textContent = text ?? "";
  };

  const zoned = {timeZoneName: "short"};
  const clock = {hour: "2-digit", minute: "2-digit", hourCycle: "h23"};
  const figures = {year: "numeric", month: lang === "ru" ? "2-digit" : "short", day: "2-digit"};
  const styles = {
    moment: {year: "numeric", month: "long", day: "numeric", ...clock, ...zoned},
    near: {month: "long", day: "numeric", ...clock, ...zoned},
    short: {...figures, ...clock, ...zoned},
    day: {year: "numeric", month: "long", day: "numeric"},
  };

  const two = (n) => String(n).padStart(2, "0");
  const running = (s) => {
    const hours = Math.floor(s / 3600), minutes = Math.floor(s / 60) % 60;
    return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
  };

  // count shows the running clocks; more than a day is left in the server's words.
  const count = () => each("[data-closes-in]", (left) => {
    left.end ??= performance.now() + left.dataset.closesIn * 1000;
    const s = Math.max(0, Math.ceil((left.end - performance.now()) / 1000));
    if (s < 86400) left.textContent = running(s);
    left.classList.toggle("soon", s < 300);
  });

  // dress fits what the server sent to the reader's place and browser.
  const dress = (root) => {
    each("time[data-local]", (t) => {
      const style = styles[t.dataset.local];
      if (style) t.textContent = new Intl.DateTimeFormat(lang === "en" ? "en-GB" : lang, style).format(new Date(t.dateTime));
    }, root);
    each("[data-copy], [data-print], [data-jump]", (part) => { part.hidden = false; }, root);
    count();
  };

  // copy works without the clipboard API too, which plain http has not.
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.createElement("textarea");
      area.value = text;
      area.className = "visually-hidden";
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-print]");
    if (!button) return;
    if (button.dataset.copy === undefined) {
      print();
      return;
    }
    await copy(button.dataset.copy);
    button.focus();
    button.classList.add("done");
    say(words().copied);
    setTimeout(() => { button.classList.remove("done"); say(""); }, 2000);
  });

  // The key "/" leads to the search, unless somebody writes. Where it stands on
  // an English keyboard, a Russian one has the point.
  document.addEventListener("keydown", (event) => {
    const slash = event.key === "/" || event.code === "Slash" && !event.shiftKey;
    const field = document.getElementById($("[data-jump]")?.dataset.jump);
    if (!slash || !field || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable]")) return;
    event.preventDefault();
    field.focus();
    field.select();
  });

  // A second press while the first is under way would only be a repetition. One that
  // was stopped or led nowhere says nothing, so after a while it may be sent again.
  const underWay = 15000; // ms
  const release = (form) => form.classList.remove("sent");
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if ("again" in form.dataset || form.method === "get") return;
    if (form.classList.contains("sent")) {
      event.preventDefault();
      return;
    }
    form.classList.add("sent");
    say(words().sending);
    setTimeout(() => { release(form); say(""); }, underWay);
  });

  // load asks for the page again, and says that nobody does by hand.
  const load = async (query = location.search) => {
    const asked = {cache: "no-store", headers: {"X-Requested-With": "fetch"}, signal: AbortSignal.timeout(10000)};
    const answer = await fetch(location.pathname + query, asked);
    if (!answer.ok) throw new Error(String(answer.status));
    return answer;
  };

  // swap puts the changing parts of the page's next state in place.
  const swap = (next) => each("[data-swap]", (part) => {
    const fresh = next.getElementById(part.id);
    if (fresh) part.replaceWith(document.adoptNode(fresh));
  });

  // Live pages. While it is seen the page asks for the state; when it is another than
  // the one on the page, the page is loaded again and its changing parts put in place.
  const main = $("[data-live]");
  const every = {preparing: 500}; // ms between questions, else 2000
  const longest = 30000; // ms between questions while the service is out of reach
  let wait = 0, timer = 0, busy = false;

  const show = async () => {
    const answer = await load();
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const hadFocus = main.contains(document.activeElement);
    swap(next);
    Object.assign(main.dataset, $("[data-live]", next).dataset);
    document.title = next.title;
    dress(document);
    const heading = $("h1");
    if (hadFocus && !main.contains(document.activeElement)) {
      heading.tabIndex = -1;
      heading.focus();
    }
    say(heading.textContent);
  };

  const look = async () => {
    clearTimeout(timer);
    if (busy || main.dataset.final === "true") return;
    if (!document.hidden) {
      busy = true;
      try {
        const answer = await fetch(main.dataset.live, {cache: "no-store", signal: AbortSignal.timeout(10000)});
        if (!answer.ok) throw new Error(String(answer.status));
        const status = await answer.json();
        if (wait) say("");
        wait = 0;
        if (status.state !== main.dataset.state) await show();
        each("[data-closes-in]", (left) => {
          left.end = performance.now() + status.closes_in * 1000;
          if (status.closes_in >= 86400) left.textContent = status.left;
        });
      } catch {
        wait = Math.min(longest, 2 * wait + 1000);
        say(words().offline);
      }
      busy = false;
    }
    clearTimeout(timer);
    timer = setTimeout(look, (every[main.dataset.state] ?? 2000) + wait);
  };

  if (main) {
    timer = setTimeout(look, every[main.dataset.state] ?? 2000);
    // A page that is seen again may be long out of date.
    document.addEventListener("visibilitychange", look);
    window.addEventListener("online", look);
  }

  // Feeds. While it is seen the page is asked now and then for what came after it, and if
  // something did, for its rows: new ones are put in front, and those leave that it does not
  // have any more, so that none is missing between.
  each("[data-feed]", (list) => {
    let paused = false, asking = false, lost = false;
    const ask = async () => {
      if (paused || asking || document.hidden) return;
      asking = true;
      try {
        let next;
        for (const query of [`?after=${list.dataset.feed}`, location.search]) {
          const answer = await load(query);
          if (answer.redirected) return location.assign(answer.url); // the session has ended
          next = new DOMParser().parseFromString(await answer.text(), "text/html");
          if (!$("[data-feed]", next).children.length) break; // nothing came
        }
        if (!paused) list.dataset.feed = $("[data-feed]", next).dataset.feed;
        const rows = [...$("[data-feed]", next).children];
        const fresh = rows.filter((row) => !document.getElementById(row.id));
        if (fresh.length && !paused) {
          const all = new Set(rows.map((row) => row.id));
          [...list.children].forEach((row) => { if (!all.has(row.id)) row.remove(); });
          list.prepend(...fresh);
          swap(next);
          dress(document);
        }
        if (lost) say("");
        lost = false;
      } catch {
        lost = true;
        say(words().offline);
      }
      asking = false;
    };
    setInterval(ask, 5000);
    document.addEventListener("visibilitychange", ask);
    each("[data-feed-pause]", (button) => {
      const [pause, resume] = [button.textContent, button.dataset.resume];
      button.hidden = false;
      button.addEventListener("click", () => {
        paused = !paused;
        button.textContent = paused ? resume : pause;
        ask();
      });
    });
  });

  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    each("form.sent", release);
    say("");
    if (main) look();
  });

  // The answer to a form has a secret: reloading it or going back must not send the form again.
  if ($("[data-once]")) history.replaceState(null, "", location.href);

  dress(document);
  if ($("[data-closes-in]")) setInterval(count, 1000);
})();
