// Highlights SQL in cells whose first line is `%%odps sql …` or `%%odps spark …`.
//
// The language of such a cell is JupyterLab's own SQL, parsed from the second line on. Each change
// of the text is checked: if the magic is removed, the cell is Python again.

const MAGIC = /^\s*%%odps[ \t]+(?:sql|spark)(?!\w)[^\n]*\n?/;
const LOOKED_AT = 400; // characters to check for a magic at the start of a cell

export async function addColouring(shared, extensions, languages) {
  const [{ EditorExtensionRegistry }, { Compartment, EditorState, Prec }, codemirror, lezer, sql] =
    await Promise.all([
      shared("@jupyterlab/codemirror"),
      shared("@codemirror/state"),
      shared("@codemirror/language"),
      shared("@lezer/common"),
      languages?.getLanguage("SQL"),
    ]);
  if (!sql?.support) return;
  const below = belowTheMagic(codemirror, lezer, sql.support.language);
  const colours = Prec.highest(codemirror.language.of(below));
  const wanted = (text) => (MAGIC.test(text) ? colours : []);

  function extensionFor(source) {
    const place = new Compartment();
    const follow = EditorState.transactionExtender.of((change) => {
      if (!change.docChanged) return null;
      const now = wanted(change.newDoc.sliceString(0, LOOKED_AT));
      const isSame = (now === colours) === (place.get(change.startState) === colours);
      return isSame ? null : { effects: place.reconfigure(now) };
    });
    return [place.of(wanted(source)), follow];
  }

  extensions.addExtension({
    name: "odps-nb-sql",
    factory: ({ model }) =>
      model.type === "code"
        ? EditorExtensionRegistry.createImmutableExtension(
            extensionFor(model.sharedModel.getSource())
          )
        : null,
  });
}

// The language of a cell with a magic: the first line has no syntax, and the rest is SQL.
function belowTheMagic({ Language, defineLanguageFacet, languageDataProp }, lezer, sql) {
  const data = defineLanguageFacet();
  const top = lezer.NodeType.define({
    id: 0,
    name: "OdpsCell",
    top: true,
    props: [[languageDataProp, data]],
  });

  class Parser extends lezer.Parser {
    createParse(input, fragments, ranges) {
      const start = MAGIC.exec(input.read(0, input.length))?.[0].length ?? 0;
      const rest = ranges
        .filter((range) => range.to > start)
        .map((range) => ({ from: Math.max(range.from, start), to: range.to }));
      if (rest.length === 0) return nothing(new lezer.Tree(top, [], [], input.length));
      const parse = sql.parser.createParse(input, fragments, rest);
      const { from } = rest[0];
      return {
        advance() {
          const tree = parse.advance();
          return tree && new lezer.Tree(top, [tree], [from], from + tree.length);
        },
        get parsedPos() {
          return parse.parsedPos;
        },
        get stoppedAt() {
          return parse.stoppedAt;
        },
        stopAt(position) {
          parse.stopAt(position);
        },
      };
    }
  }

  return new Language(data, new Parser(), [], "odps-sql");
}

// A parse that is already complete.
function nothing(tree) {
  return { advance: () => tree, parsedPos: tree.length, stoppedAt: null, stopAt() {} };
}
