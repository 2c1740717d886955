import pytest

from trainwright.data.language import guess_language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("这家酒店的服务很好，房间也很干净，WIFI 速度 100M", "zh"),
        ("The room was clean and the staff were friendly, but it is far from the beach.", "en"),
        ("add this song to my playlist", "en"),
        ("Das Zimmer war sauber und das Personal freundlich, aber es ist weit vom Strand.", "other"),
        ("La chambre était propre et le personnel aimable, mais c'est loin de la plage.", "other"),
        ("La habitación estaba limpia y el personal era amable, pero está lejos de la playa.", "other"),
        ("部屋はきれいでスタッフも親切でしたが、ビーチから遠いです。", "other"),
        ("東京都内の高級旅館は全室禁煙です", "other"),
        ("방은 깨끗했고 직원들은 친절했지만 해변에서 멀어요.", "other"),
        ("Номер был чистым, а персонал приветливым, но до пляжа далеко.", "other"),
        ("12345 !!!", "other"),
        ("", "other"),
    ],
)
def test_the_language_is_known_by_script_and_common_words(text, language):
    assert guess_language([text])[0] == language


def test_the_reason_names_the_share():
    assert guess_language(["好好好好 abcdef"])[1] == "40% of the letters are Chinese characters"
    assert guess_language(["the cat of the neighbour was here"])[1].startswith("57% of the words")


def test_real_sets_are_known(shared_data):
    for name, language in [
        ("snips", "en"),
        ("banking77", "en"),
        ("sentence_polarity", "en"),
        ("zh_shop_reviews", "zh"),
    ]:
        lines = (shared_data / name / "train.jsonl").read_text(encoding="utf-8").splitlines()[:500]
        assert guess_language(lines)[0] == language
