package receive

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const noSecret = `--secret is missing: without it nothing can be verified.
A secret is shown when its endpoint is made ("payledger webhook add URL", or POST /v1/webhook-endpoints)
and when it is rotated ("payledger webhook rotate-secret ENDPOINT_ID"). "payledger demo --webhook" makes an
endpoint for this command and prints its secret. Give it as --secret whsec_… or in PAYLEDGER_WEBHOOK_SECRET`

// minSecret is the shortest secret that Standard Webhooks allows: 24 bytes in base64. The library
// accepts an empty one, which anyone could sign with.
const minSecret = len("whsec_") + 32

func verifiers(secrets []string) ([]*standardwebhooks.Webhook, error) {
	if len(secrets) == 0 {
		return nil, errors.New(noSecret)
	}
	all := make([]*standardwebhooks.Webhook, len(secrets))
	for i, s := range secrets {
		s = strings.TrimSpace(s)
		w, err := standardwebhooks.NewWebhook(s)
		if err != nil || !strings.HasPrefix(s, "whsec_") || len(s) < minSecret {
			return nil, fmt.Errorf("--secret, number %d: not a secret of a webhook endpoint: want whsec_ and at least 32 characters of base64", i+1)
		}
		all[i] = w
	}
	return all, nil
}

func forwardTarget(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Fragment != "" {
		return nil, fmt.Errorf("--forward-to %q: want http:// or https:// and a host", text)
	}
	return u, nil
}
