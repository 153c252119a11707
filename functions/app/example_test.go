package app_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/weir-limits/weir/functions/app"
	"github.com/weir-limits/weir/limiter"
	"github.com/weir-limits/weir/limiter/identity"
	"github.com/weir-limits/weir/limiter/memstore"
	"github.com/weir-limits/weir/limiter/rules"
)

// The http.Handler that runs at AWS, as a plain server.
func ExampleEnvironment_Serve() {
	r, err := rules.Parse([]byte(`{"rules":[{"endpoint":"*","limits":{"*":{"requests":1,"window":"1m"}}}]}`), rules.Options{Version: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	e := &app.Environment{
		Limiter:    limiter.New(memstore.New(memstore.Options{}), limiter.Options{}),
		Rules:      r,
		Identifier: identity.New(identity.Options{}),
		Clock:      time.Now,
		Logger:     slog.Default(),
	}
	server := httptest.NewServer(e.Serve(app.NewAPI(e)))
	defer server.Close()
	for range 2 {
		answer, err := http.Get(server.URL + "/api/v1/search?q=weir") //nolint:noctx // as a reader would write it
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = answer.Body.Close()
		fmt.Println(answer.StatusCode)
	}
	// Output:
	// 200
	// 429
}
