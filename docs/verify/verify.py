import hashlib
import hmac
import sys


def verify(secret: str, header: str, raw_body: bytes) -> bool:
    digest = hmac.new(secret.encode(), raw_body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(f"sha256={digest}".encode(), header.encode())


if __name__ == "__main__":
    print("valid" if verify(sys.argv[1], sys.argv[2], sys.stdin.buffer.read()) else "invalid")
