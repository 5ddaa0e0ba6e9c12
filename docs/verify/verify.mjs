import { createHmac, timingSafeEqual } from "node:crypto";

export function verify(secret, header, rawBody) {
  const expected = "sha256=" + createHmac("sha256", secret).update(rawBody).digest("hex");
  const given = Buffer.from(header ?? "");
  return given.length === expected.length && timingSafeEqual(given, Buffer.from(expected));
}

const chunks = [];
for await (const chunk of process.stdin) chunks.push(chunk);
const [secret, header] = process.argv.slice(2);
console.log(verify(secret, header, Buffer.concat(chunks)) ? "valid" : "invalid");
