import { readFileSync } from "node:fs";

const { amount, currency } = JSON.parse(readFileSync(0, "utf8"));
const [locale] = process.argv.slice(2);

try {
  const text = new Intl.NumberFormat(locale, { style: "currency", currency }).format(amount);
  console.log(JSON.stringify({ text }));
} catch (error) {
  console.log(JSON.stringify({ error: { code: "EINVAL", message: error.message } }));
}
