// Calls the service with the clients of three generators, and compares the values that they decode with the values that
// the service sent, digit for digit.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"reflect"

	"judge/oapicodegen"
	"judge/ogen"
	"judge/openapigenerator"
)

const (
	// More digits than a 64-bit float has.
	bound        = "12345678901234.5678"
	leastNumbers = 300
)

var (
	ctx    = context.Background()
	origin = os.Getenv("TICKERLINE_URL")
	key    = os.Getenv("TICKERLINE_KEY")
)

// client is a generated client. Each function sends one request.
type client struct {
	name     string
	runners  func(limit string) (any, error)
	dilution func(limit string) (any, error)
	screener func(leastMarketCap string) error
	export   func(limit string) error
}

// recorder adds the key to requests, and keeps the last request and response.
type recorder struct {
	query  url.Values
	body   []byte
	status int
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	r.query, r.status = request.URL.Query(), response.StatusCode
	r.body, err = io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(r.body))
	return response, err
}

func makeOpenApiGeneratorClient(httpClient *http.Client) client {
	configuration := openapigenerator.NewConfiguration()
	configuration.Servers = openapigenerator.ServerConfigurations{{URL: origin}}
	configuration.HTTPClient = httpClient
	api := openapigenerator.NewAPIClient(configuration)
	return client{
		name: "openapi-generator",
		runners: func(limit string) (any, error) {
			body, _, err := api.IntradayRunnersAPI.IntradayRunnersList(ctx).Limit(limit).Execute()
			return body, err
		},
		dilution: func(limit string) (any, error) {
			body, _, err := api.DilutionDataAPI.DilutionDataListAdvanced(ctx).Limit(limit).Execute()
			return body, err
		},
		screener: func(leastMarketCap string) error {
			_, _, err := api.ScreenerAPI.ScreenerList(ctx).MinMarketCap(leastMarketCap).Execute()
			return err
		},
		export: func(limit string) error {
			request := api.IntradayRunnersAPI.IntradayRunnersList(ctx).Limit(limit)
			// The client then fails, because it expects JSON.
			_, _, _ = request.Format(openapigenerator.ListFormatCsv).Execute()
			return nil
		},
	}
}

func makeOapiCodegenClient(httpClient *http.Client) client {
	api, err := oapicodegen.NewClientWithResponses(origin, oapicodegen.WithHTTPClient(httpClient))
	check(err)
	return client{
		name: "oapi-codegen",
		runners: func(limit string) (any, error) {
			response, err := api.IntradayRunnersListWithResponse(ctx, &oapicodegen.IntradayRunnersListParams{Limit: &limit})
			if err != nil {
				return nil, err
			}
			return response.JSON200, nil
		},
		dilution: func(limit string) (any, error) {
			parameters := &oapicodegen.DilutionDataListAdvancedParams{Limit: &limit}
			response, err := api.DilutionDataListAdvancedWithResponse(ctx, parameters)
			if err != nil {
				return nil, err
			}
			return response.JSON200, nil
		},
		screener: func(leastMarketCap string) error {
			_, err := api.ScreenerListWithResponse(ctx, &oapicodegen.ScreenerListParams{MinMarketCap: &leastMarketCap})
			return err
		},
		export: func(limit string) error {
			format := oapicodegen.ListFormatCsv
			parameters := &oapicodegen.IntradayRunnersListParams{Limit: &limit, Format: &format}
			_, err := api.IntradayRunnersListWithResponse(ctx, parameters)
			return err
		},
	}
}

type credentials struct{}

func (credentials) Bearer(context.Context, ogen.OperationName) (ogen.Bearer, error) {
	return ogen.Bearer{Token: key}, nil
}

func (credentials) ApiKey(context.Context, ogen.OperationName) (ogen.ApiKey, error) {
	return ogen.ApiKey{APIKey: key}, nil
}

func makeOgenClient(httpClient *http.Client) client {
	api, err := ogen.NewClient(origin, credentials{}, ogen.WithClient(httpClient))
	check(err)
	return client{
		name: "ogen",
		runners: func(limit string) (any, error) {
			response, err := api.IntradayRunnersList(ctx, ogen.IntradayRunnersListParams{Limit: ogen.NewOptString(limit)})
			if err != nil {
				return nil, err
			}
			body, isList := response.(*ogen.IntradayRunnersListOKApplicationJSONHeaders)
			if !isList {
				return nil, fmt.Errorf("the response is a %T", response)
			}
			return &body.Response, nil
		},
		dilution: func(limit string) (any, error) {
			parameters := ogen.DilutionDataListAdvancedParams{Limit: ogen.NewOptString(limit)}
			response, err := api.DilutionDataListAdvanced(ctx, parameters)
			if err != nil {
				return nil, err
			}
			body, isList := response.(*ogen.DilutionDataListAdvancedOKApplicationJSONHeaders)
			if !isList {
				return nil, fmt.Errorf("the response is a %T", response)
			}
			return &body.Response, nil
		},
		screener: func(leastMarketCap string) error {
			_, err := api.ScreenerList(ctx, ogen.ScreenerListParams{MinMarketCap: ogen.NewOptString(leastMarketCap)})
			return err
		},
		export: func(limit string) error {
			format := ogen.NewOptListFormat(ogen.ListFormatCsv)
			_, err := api.IntradayRunnersList(ctx, ogen.IntradayRunnersListParams{Limit: ogen.NewOptString(limit), Format: format})
			return err
		},
	}
}

func parse(text []byte) any {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	check(decoder.Decode(&value))
	return value
}

func isSameNumber(sent, decoded json.Number) bool {
	left, isLeft := new(big.Rat).SetString(sent.String())
	right, isRight := new(big.Rat).SetString(decoded.String())
	return isLeft && isRight && left.Cmp(right) == 0
}

// compare returns the paths of values that differ, and the number of numbers.
func compare(path string, sent, decoded any) (differences []string, numbers int) {
	add := func(path string, sent, decoded any) {
		found, count := compare(path, sent, decoded)
		differences, numbers = append(differences, found...), numbers+count
	}
	switch sent := sent.(type) {
	case map[string]any:
		object, _ := decoded.(map[string]any)
		for name, value := range sent {
			add(path+"."+name, value, object[name])
		}
	case []any:
		list, _ := decoded.([]any)
		for index, value := range sent {
			var other any
			if index < len(list) {
				other = list[index]
			}
			add(fmt.Sprintf("%s[%d]", path, index), value, other)
		}
	case json.Number:
		number, _ := decoded.(json.Number)
		if numbers = 1; !isSameNumber(sent, number) {
			differences = []string{fmt.Sprintf("%s: %v instead of %v", path, decoded, sent)}
		}
	default:
		if !reflect.DeepEqual(sent, decoded) {
			differences = []string{fmt.Sprintf("%s: %v instead of %v", path, decoded, sent)}
		}
	}
	return differences, numbers
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// judge returns what is wrong with a client.
func judge(make func(*http.Client) client) (findings []string) {
	r := &recorder{}
	c := make(&http.Client{Transport: r})
	report := func(format string, values ...any) { findings = append(findings, c.name+": "+fmt.Sprintf(format, values...)) }
	for _, list := range []func(string) (any, error){c.runners, c.dilution} {
		body, err := list("100")
		if err != nil {
			report("%v", err)
			continue
		}
		text, err := json.Marshal(body)
		check(err)
		differences, numbers := compare("", parse(r.body), parse(text))
		if len(differences) > 0 {
			report("%d of %d values differ, such as %s", len(differences), numbers, differences[0])
		}
		if numbers < leastNumbers {
			report("only %d numbers were compared", numbers)
		}
	}
	if err := c.screener(bound); err != nil || r.query.Get("min_market_cap") != bound || r.status != http.StatusOK {
		report("min_market_cap: sent %v, got %d, %v", r.query, r.status, err)
	}
	if err := c.export("all"); err != nil || r.query.Get("limit") != "all" || r.status != http.StatusOK {
		report("limit=all: sent %v, got %d, %v", r.query, r.status, err)
	}
	return findings
}

func main() {
	isWrong := false
	makers := []func(*http.Client) client{makeOpenApiGeneratorClient, makeOapiCodegenClient, makeOgenClient}
	for _, maker := range makers {
		for _, finding := range judge(maker) {
			isWrong = true
			fmt.Println(finding)
		}
	}
	if isWrong {
		os.Exit(1)
	}
}
