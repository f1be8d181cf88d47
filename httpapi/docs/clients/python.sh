python3 -m venv .venv
.venv/bin/pip install openapi-python-client==0.29.0
.venv/bin/openapi-python-client generate --path openapi.yaml --meta none --output-path payments
.venv/bin/python shop.py # below
