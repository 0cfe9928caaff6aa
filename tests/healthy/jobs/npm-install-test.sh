# npm's warnings about deprecated packages, then node's own test runner with a todo test that fails.
# needs: npm node
npm config set fund false --location project >/dev/null 2>&1
npm init -y
npm install is-number@7.0.0 rimraf@2 --no-fund 2>&1
cat > a.test.js <<'J'
const test = require('node:test'), assert = require('node:assert');
test('error is thrown', () => assert.throws(() => { throw new Error('fatal error, as expected'); }));
test('times out later', { todo: 'not written yet' }, () => { throw new Error('not implemented'); });
test('skipped on failure', { skip: 'no GPU' }, () => {});
J
node --test a.test.js
npm ls
