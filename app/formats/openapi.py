from typing import Any


def is_document(e: Any) -> bool:
    return False


def tools(e: Any) -> Any:
    return []
