"""SVG texts: malicious ones that draw without end, and ordinary ones."""

from tests.support.samples import sample_file

HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'viewBox="0 0 100 100">'
)


def nested(element, levels=8, times=10, *, href="href"):
    """Return an attack in which each level draws the next one ten times."""
    rows = ['<g id="l0"><rect width="9" height="9"/></g>']
    for level in range(1, levels + 1):
        rows.append(f'<g id="l{level}">' + f'<use {href}="#l{level - 1}"/>' * times + "</g>")
    return f"{HEAD}<defs>{''.join(rows)}</defs>{element}</svg>"


def chained(prop, wrapper, levels=8, times=10):
    """Return the same attack with nested paints, masks, clip paths or markers."""
    shape = '<path d="M0 0L9 9L0 9L1 2L3 4L5 6L7 8L9 1L2 3L4 5" {}/>'
    rows = [f'<{wrapper} id="p0">{shape.format("")}</{wrapper}>']
    for level in range(1, levels + 1):
        inner = shape.format(f'{prop}="url(#p{level - 1})"') * times
        rows.append(f'<{wrapper} id="p{level}">{inner}</{wrapper}>')
    return f'{HEAD}<defs>{"".join(rows)}</defs><path d="M0 0h9" {prop}="url(#p{levels})"/></svg>'


HOSTILE = {
    "use": nested('<use href="#l8"/>'),
    "fill pattern": chained("fill", "pattern"),
    "mask": chained("mask", "mask"),
    "clip path": chained("clip-path", "clipPath"),
    "marker": chained("marker-mid", "marker", levels=4),
    "many points": f'{HEAD}<path d="M{"1 2 " * 150_000}"/></svg>',
    "many shapes": HEAD + "<rect/>" * 10_001 + "</svg>",
    "many letters": f"{HEAD}<text>{'x' * 300_000}</text></svg>",
    "attribute entity": '<!DOCTYPE svg [<!ENTITY a "#l8">]>' + nested('<use href="&a;"/>'),
    "unknown entity": '<!DOCTYPE svg SYSTEM "x.dtd">' + HEAD + "<text>&b;</text></svg>",
    "itself": f'{HEAD}<g id="a"><use href="#a"/></g></svg>',
    "deep": HEAD + "<g>" * 200 + "</g>" * 200 + "</svg>",
    "deep references": HEAD
    + "".join(f'<g id="a{n}"><use href="#a{n + 1}"/></g>' for n in range(2000))
    + "</svg>",
    "short dashes": f'{HEAD}<path d="M0 0H1e9" stroke-dasharray="1e-6"/></svg>',
    "cut": HEAD,
    "selectors": f"{HEAD}<style>{'a b c d e f{x:y}' * 2000}</style>{'<g/>' * 900}</svg>",
    "nested blur": f'{HEAD}<filter id="f"><feGaussianBlur stdDeviation="1e6"/></filter>'
    + '<g filter="url(#f)">' * 50
    + '<rect width="100" height="100"/>'
    + "</g>" * 50
    + "</svg>",
    "huge": HEAD.replace(">", ' width="1e9" height="1e9"><rect width="1e9" height="1e9"/></svg>'),
}

PLAIN = {
    "rose": sample_file("rose.svg").decode(),
    "script": sample_file("script_inside.svg").decode(),
    "few uses": nested('<use href="#l2"/>', levels=2),
    "document type": '<?xml version="1.0" standalone="no"?><!DOCTYPE svg PUBLIC '
    '"-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd">'
    f"{HEAD}<rect/></svg>",
    "editor": '<svg xmlns="http://www.w3.org/2000/svg" xmlns:i="http://www.inkscape.org/x">'
    '<i:namedview i:zoom="2"/><metadata><i:a><i:b/></i:a></metadata><g i:label="a (b)">'
    '<path style="fill:#fff;stroke:none;filter:none" d="M0 0h9"/></g></svg>',
    "gradient": f'{HEAD}<defs><linearGradient id="a"><stop offset="0"/><stop offset="1"/>'
    '</linearGradient><linearGradient id="b" xlink:href="#a"/></defs>'
    "<style>.x{fill:url(#a)} .y, .z > .x { fill : url( '#b' ) ; }</style>"
    '<rect class="x" transform="rotate(45 5 5)"/><rect fill="url(#b) rgb(1,2,3)"/></svg>',
    "arrow": f'{HEAD}<marker id="m"><path d="M0 0L9 4L0 9z"/></marker>'
    '<path d="M0 0L9 9" marker-end="url(#m)"/></svg>',
    "clip": f'{HEAD}<clipPath id="c"><rect/></clipPath>'
    + '<g clip-path="url(#c)"><path d="M0 0"/></g>' * 500
    + "</svg>",
    "dashes": f'{HEAD}<path d="M0 50H100" stroke-dasharray="5,2.5"/></svg>',
    "dangling": f'{HEAD}<use href="#none"/><rect fill="url(#none)"/></svg>',
    "plot": HEAD
    + "<style>*{stroke-linejoin: round; stroke-linecap: butt}</style>"
    + '<defs><path id="m" d="M0 3C0.8 3 1.6 2.7 2.1 2.1z" style="stroke:#1f77b4"/></defs>'
    + '<use xlink:href="#m" x="1" y="2" style="fill: #1f77b4"/>' * 2000
    + "</svg>",
}
