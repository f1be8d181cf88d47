echo '{ "type": "module" }' > package.json
npm install openapi-fetch@0.17.0
npm install --save-dev openapi-typescript@7.13.0 typescript@5.9.3 @types/node@20
npx openapi-typescript openapi.yaml -o payments.ts
npx tsc --strict --target es2022 --module nodenext shop.ts # below
node shop.js
