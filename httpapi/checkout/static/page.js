// Keeps the page true to the payment without a reload. Everything here is a
// convenience: without it the page refreshes itself and the form works as is.
"use strict";

(() => {
  const every = {preparing: 500, open: 2000, closed: 3000}; // ms between looks
  const longest = 30000; // ms between looks while the service is out of reach
  let wait = 0; // ms added by failures
  let timer = 0;
  let looking = false;
  let end = 0; // of the countdown, on performance's clock, in ms

  const payment = () => document.getElementById("payment");
  const say = (text) => {
    const live = document.getElementById("live");
    if (live.textContent !== text) live.textContent = text;
  };

  const clock = (s) => {
    const two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(s / 3600), minutes = Math.floor(s / 60) % 60;
    return hours ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
  };

  // count shows the running clock; more than a day is left in the server's words.
  const count = () => {
    const left = document.getElementById("left");
    if (!left) return;
    const s = Math.max(0, Math.ceil((end - performance.now()) / 1000));
    if (s < 86400) left.textContent = clock(s);
  };

  // dress fits what the server sent to the customer's clock.
  const dress = () => {
    const left = document.getElementById("left");
    if (left) end = performance.now() + left.dataset.closesIn * 1000;
    const deadline = document.getElementById("deadline");
    if (deadline) {
      deadline.textContent = new Intl.DateTimeFormat(document.documentElement.lang, {
        day: "numeric", month: "long", hour: "2-digit", minute: "2-digit", hourCycle: "h23", timeZoneName: "short",
      }).format(new Date(deadline.dateTime));
    }
    count();
  };

  // show puts the page's present content in place of the old.
  const show = async () => {
    const answer = await fetch(location.href, {cache: "no-store", signal: AbortSignal.timeout(10000)});
    if (!answer.ok) throw new Error(String(answer.status));
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = payment(), then = next.getElementById("payment");
    const hadFocus = now.contains(document.activeElement);
    now.querySelector(".card").replaceWith(then.querySelector(".card"));
    for (const name of ["state", "status", "final"]) now.dataset[name] = then.dataset[name];
    document.title = next.title;
    dress();
    const heading = now.querySelector("h1");
    if (hadFocus) {
      heading.tabIndex = -1;
      heading.focus();
    }
    say(heading.textContent);
  };

  const look = async () => {
    if (looking || document.hidden || payment().dataset.final === "true") return;
    looking = true;
    clearTimeout(timer);
    try {
      const answer = await fetch(payment().dataset.live, {cache: "no-store", signal: AbortSignal.timeout(10000)});
      if (!answer.ok) throw new Error(String(answer.status));
      const status = await answer.json();
      if (wait) say("");
      wait = 0;
      if (status.state !== payment().dataset.state) {
        await show();
      } else {
        end = performance.now() + status.closes_in * 1000;
        const left = document.getElementById("left");
        if (left && status.closes_in >= 86400) left.textContent = status.left;
      }
    } catch {
      wait = Math.min(longest, 2 * wait + 1000);
      say(payment().dataset.offline);
    }
    looking = false;
    if (payment().dataset.final !== "true") timer = setTimeout(look, (every[payment().dataset.state] ?? 2000) + wait);
  };

  // A second press while the first is under way would only be a repetition.
  document.addEventListener("submit", (event) => {
    if (event.target.classList.contains("sent")) {
      event.preventDefault();
      return;
    }
    event.target.classList.add("sent");
    say(payment().dataset.sending);
  });
  window.addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    document.querySelector("form.sent")?.classList.remove("sent");
    say("");
    look();
  });
  document.addEventListener("visibilitychange", look);
  window.addEventListener("online", look);

  dress();
  setInterval(count, 1000);
  timer = setTimeout(look, every[payment().dataset.state] ?? 2000);
})();
