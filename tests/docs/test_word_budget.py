"""Word budget of the hand-written documents."""

from count_words import BUDGET, count_words, counts, is_generated


def test_hand_written_documents_keep_the_word_budget():
    words = counts()
    assert sum(words.values()) <= BUDGET, sorted(words.items(), key=lambda item: -item[1])[:10]


def test_changelog_stays_on_one_page():
    assert counts()["CHANGELOG.md"] <= 1_400


def test_generated_text_and_comments_are_not_counted():
    page = "# A `title`\n\n| a | 1.5 ± 0.1 |\n|---|---|\n<!--figure: a#b-->2<!--/figure-->\n"
    assert count_words(page + "<!-- measured a -->\ntext\n<!-- /measured -->\n") == 6
    assert is_generated("<!-- Written by a program. -->\n\nText")
    assert count_words("<!-- Written by a program. -->\n\nText") == 0
