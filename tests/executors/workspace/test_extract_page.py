"""Pages as Markdown: what a model needs of a page keeps its form."""

from __future__ import annotations

import pytest

from playground.executors.workspace.extract_page import page_text

PAGES = {
    "a table keeps its rows and columns": (
        "<table><thead><tr><th>Name<th>Price</thead><tr><td>pen<td>3</table>",
        "| Name | Price |\n| --- | --- |\n| pen | 3 |",
    ),
    "a table without a head has its first row as one": (
        "<table><tr><td>pen<td>3<tr><td>cup<td>4</table>",
        "| pen | 3 |\n| --- | --- |\n| cup | 4 |",
    ),
    "a bar in a cell is no border": (
        "<table><tr><th>or<tr><td>a|b</table>",
        "| or |\n| --- |\n| a\\|b |",
    ),
    "a table has one head, below its caption and above its foot": (
        "<table><caption>Pens</caption><tr><th>Name<tbody><tr><td>pen<tbody><tr><td>cup"
        "<tfoot><tr><td>2</table>",
        "Pens\n\n| Name |\n| --- |\n| pen |\n| cup |\n| 2 |",
    ),
    "code beside its line numbers keeps its lines": (
        "<table><tr><td class=linenos><pre>1\n2</pre><td class=code><div class=highlight-py>"
        "<pre>def f():\n    return 1</pre></div></table>",
        "```py\ndef f():\n    return 1\n```",
    ),
    "a table in a table of one row is a table": (
        "<table><tr><td>menu<td><table><tr><th>a<th>b<tr><td>1<td>2</table></table>",
        "menu\n\n| a | b |\n| --- | --- |\n| 1 | 2 |",
    ),
    "code with line breaks": ("<pre>a<br>b</pre>", "```\na\nb\n```"),
    "blocks do not run together": (
        "<nav>a</nav><main>b<details><summary>c</summary>d</details></main><aside>e</aside>"
        "<footer>f</footer><select><option>g<option>h</select>",
        "a\n\nb\n\nc\n\nd\n\ne\n\nf\n\ng\n\nh",
    ),
    "links are relative to the page's own base": (
        '<base href="https://o/v2/"><a href=x>a</a>',
        "[a](https://o/v2/x)",
    ),
    "code keeps its lines, spaces and language": (
        '<pre><code class="language-py">def f():\n    return 1\n\n\n    # end\n</code></pre>',
        "```py\ndef f():\n    return 1\n\n\n    # end\n```",
    ),
    "the language stands at the block around it": (
        '<div class="highlight-python notranslate"><div class="highlight"><pre>x</pre></div></div>',
        "```python\nx\n```",
    ),
    "code with a fence has a longer one": ("<pre>```\nx\n```</pre>", "````\n```\nx\n```\n````"),
    "code in a sentence": ("<p>call <code>a_b()</code> twice", "call `a_b()` twice"),
    "numbered items keep their numbers": (
        "<ol><li>a<li>b</ol><ol start=7><li>c</ol>",
        "1. a\n2. b\n\n7. c",
    ),
    "numbers count down, and on from an item's own": (
        "<ol reversed><li>a<li value=9>b<li>c</ol><ol start=x²><li>d</ol>",
        "3. a\n9. b\n8. c\n\n1. d",
    ),
    "lists in lists": (
        "<ol><li>a<ul><li>b<li>c</ul><li>d</ol>",
        "1. a\n   - b\n   - c\n2. d",
    ),
    "links lead to absolute URLs, places in the page to none": (
        '<p><a href="../x?a=1" title=t>one</a>, <a href="#y">two</a>, <a href="javascript:z">three',
        "[one](https://h/x?a=1), two, three",
    ),
    "an image is its text": (
        '<p>see <img src="data:,x" alt="a plan"> and <img src=y>more',
        "see a plan and more",
    ),
    "what is not shown is left out": (
        "<script>a</script><style>b</style><noscript>c</noscript><svg><title>d</title></svg>"
        "<template>e</template><!-- f --><p>g",
        "g",
    ),
    "a title comes first, in one line": (
        "<head><title>\n A  b </title></head><body><h2>c</h2>",
        "# A b\n\n## c",
    ),
    "names with _ and * are not escaped": ("<p>my_tool_name * 2", "my_tool_name * 2"),
    "an empty page": ("", ""),
}


@pytest.mark.parametrize("page", PAGES)
def test_page_text_keeps_the_form(page: str) -> None:
    html, expected = PAGES[page]
    assert page_text(html, "https://h/a/b") == expected


def test_page_text_of_a_long_numbered_list_reads_every_number() -> None:
    lines = page_text("<ol>" + "<li>x" * 3_000 + "</ol>", "https://h/").split("\n")
    assert lines == [f"{number}. x" for number in range(1, 3_001)]


def test_page_text_nested_deeper_than_the_limit_is_bare_text() -> None:
    for levels in (300, 20_000):
        text = page_text("<div>" * levels + "bottom", "https://h/")
        assert text.startswith("(The page is nested too deep")
        assert text.endswith("bottom")
    assert page_text("<div>" * 190 + "<b>bottom</b>", "https://h/") == "**bottom**"
