// Compares what typescript_corpus.py's transform made of each source with what the official compiler does.
// node typescript_corpus.cjs FOLDER-OF-TYPESCRIPT < jobs > verdicts
'use strict';
const fs = require('node:fs');
const ts = require(process.argv[2]);

const options = {
  target: ts.ScriptTarget.ESNext, module: ts.ModuleKind.ESNext, removeComments: true,
  useDefineForClassFields: true, experimentalDecorators: false,
};

/** A tree of kinds and texts, without what two printers may write in two ways. */
function shape(node) {
  while (ts.isParenthesizedExpression(node)) node = node.expression;
  // `a.b!` and `a as T` leave parentheses or an empty statement behind; `{ x: x }` is `{ x }`.
  if (ts.isPropertyAssignment(node) && ts.isIdentifier(node.name) && ts.isIdentifier(node.initializer) && node.name.text === node.initializer.text) {
    return ['short', node.name.text];
  }
  if (ts.isShorthandPropertyAssignment(node) && !node.objectAssignmentInitializer) return ['short', node.name.text];
  if (ts.isBindingElement(node) || ts.isExportSpecifier(node) || ts.isImportSpecifier(node)) {
    if (node.propertyName && node.propertyName.text === node.name.text) {
      return ['short', node.name.text, node.dotDotDotToken ? '...' : '', node.initializer ? shape(node.initializer) : ''];
    }
    if (!node.propertyName && ts.isIdentifier(node.name)) return ['short', node.name.text, node.dotDotDotToken ? '...' : '', node.initializer ? shape(node.initializer) : ''];
  }
  if (ts.isRegularExpressionLiteral(node)) {
    const end = node.text.lastIndexOf('/');
    return ['regexp', node.text.slice(0, end), [...node.text.slice(end)].sort().join('')];
  }
  if (ts.isBigIntLiteral(node)) return ['bigint', BigInt(node.text.slice(0, -1)).toString()];
  if (ts.isNumericLiteral(node)) return ['number', Number(node.text)];
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return [ts.SyntaxKind[node.kind], node.text];
  if (ts.isTemplateHead(node) || ts.isTemplateMiddle(node) || ts.isTemplateTail(node)) return ['template', node.text];
  const own = node.text !== undefined && !ts.isSourceFile(node) ? node.text : '';
  const children = [];
  ts.forEachChild(node, (child) => {
    if (child.kind === ts.SyntaxKind.EmptyStatement && (ts.isSourceFile(node) || ts.isBlock(node) || ts.isModuleBlock(node))) return;
    if (ts.isExportDeclaration(child) && child.exportClause && !child.moduleSpecifier && child.exportClause.elements?.length === 0) return; // export {}
    children.push(shape(child));
  });
  const flags = ts.isVariableDeclarationList(node) ? node.flags & ts.NodeFlags.BlockScoped : '';
  return [ts.SyntaxKind[node.kind], own, flags, node.operator ?? '', ...children];
}

function parsed(name, text) {
  const file = ts.createSourceFile(name, text, ts.ScriptTarget.ESNext, false, ts.ScriptKind.JS);
  return { file, errors: file.parseDiagnostics };
}

function where(a, b) {
  if (Array.isArray(a) && Array.isArray(b) && a[0] === b[0]) {
    for (let n = 0; n < Math.max(a.length, b.length); n++) {
      if (JSON.stringify(a[n]) !== JSON.stringify(b[n])) return Array.isArray(a[n]) && Array.isArray(b[n]) ? where(a[n], b[n]) : [a[n] ?? a, b[n] ?? b];
    }
  }
  return [a, b];
}

const brief = (value) => JSON.stringify(value)?.slice(0, 240) ?? 'nothing';

function judge({ source, ours, refusal }) {
  const text = fs.readFileSync(source, 'utf8');
  const theirs = ts.transpileModule(text, { compilerOptions: options, reportDiagnostics: true, fileName: source });
  const theyRefuse = theirs.diagnostics.some((each) => each.category === ts.DiagnosticCategory.Error);
  if (refusal) return theyRefuse ? ['refused by both', ''] : ['refused by us', refusal];
  if (theyRefuse) return ['refused by the compiler only', ''];
  const a = parsed('ours.js', fs.readFileSync(ours, 'utf8')), b = parsed('theirs.js', theirs.outputText);
  if (a.errors.length) return ['differs', 'our output is not JavaScript: ' + ts.flattenDiagnosticMessageText(a.errors[0].messageText, ' ')];
  const left = shape(a.file), right = shape(b.file);
  if (JSON.stringify(left) === JSON.stringify(right)) return ['the same', ''];
  const lowered = /\b(?:enum|namespace|module)\s+[A-Za-z_$]|constructor\s*\([^)]*\b(?:private|public|protected|readonly)\b/.test(text);
  const [one, two] = where(left, right);
  return [lowered ? 'lowered in another way (enum, namespace, parameter property)' : 'differs', `ours ${brief(one)}\ncompiler ${brief(two)}`];
}

const jobs = JSON.parse(fs.readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(jobs.map((job) => {
  const [kind, detail] = judge(job);
  return { source: job.source, kind, detail };
})));
