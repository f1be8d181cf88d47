// Judges notifications with the packages standardwebhooks and svix. The only
// argument is the directory whose node_modules has both. On stdin an array of
// {what, secret, headers, body, good}; on stdout an array of what was judged
// otherwise.
'use strict';
const { createRequire } = require('node:module');
const { readFileSync } = require('node:fs');
const { join, resolve } = require('node:path');

const load = createRequire(join(resolve(process.argv[2]), 'judge.cjs'));
const trials = JSON.parse(readFileSync(0, 'utf8'));
const otherwise = [];
for (const name of ['standardwebhooks', 'svix']) {
  const { Webhook, WebhookVerificationError } = load(name);
  for (const { what, secret, headers, body, good } of trials) {
    const single = Object.fromEntries(Object.entries(headers).map(([key, values]) => [key, values[0]]));
    let verdict = 'accepted';
    try {
      new Webhook(secret).verify(Buffer.from(body, 'base64'), single);
    } catch (err) {
      verdict = err instanceof WebhookVerificationError ? 'refused' : `broken: ${err}`;
    }
    if (verdict !== (good ? 'accepted' : 'refused')) otherwise.push(`${name}, ${what}: ${verdict}`);
  }
}
console.log(JSON.stringify(otherwise));
