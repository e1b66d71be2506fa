"""Writes 40,000 people and 40,000 edges as eight objects into s3://$BUCKET/in/."""

import json
import os

import obstore

store = obstore.store.from_url(
    f"s3://{os.environ['BUCKET']}", endpoint=os.environ["AWS_ENDPOINT_URL"], client_options={"allow_http": True}
)
for file in range(8):
    numbers = range(file, 40_000, 8)
    people = [{"type": "Person", "data": {"name": f"p{number}", "age": number % 90}} for number in numbers]
    knows = [{"edge": "Knows", "from": f"p{number}", "to": f"p{(7 * number + 1) % 40_000}"} for number in numbers]
    lines = [json.dumps(record) for record in [*people, *knows]]
    obstore.put(store, f"in/{file}.jsonl", "\n".join(lines).encode())
