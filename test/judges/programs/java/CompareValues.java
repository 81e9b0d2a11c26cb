import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigDecimal;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.api.DilutionDataApi;
import org.openapitools.client.api.DilutionDataApi.APIDilutionDataListAdvancedRequest;
import org.openapitools.client.api.IntradayRunnersApi;
import org.openapitools.client.api.IntradayRunnersApi.APIIntradayRunnersListRequest;
import org.openapitools.client.api.ScreenerApi;
import org.openapitools.client.api.ScreenerApi.APIScreenerListRequest;
import org.openapitools.client.model.ListFormat;

/** Compares the values that the generated client decodes with the values that the service sent, digit for digit. */
public class CompareValues {
  /** More digits than a double has. */
  private static final String BOUND = "12345678901234.5678";

  /** Fewer numbers would mean that the rows were not compared. */
  private static final int MIN_NUMBERS = 300;

  private static final List<String> findings = new ArrayList<>();

  private static final ObjectMapper exact =
      new ObjectMapper().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS);

  private static final AtomicReference<URI> sent = new AtomicReference<>();

  private static ApiClient client;

  /** Compares two values at a path. Returns how many numbers were compared. */
  private static int compare(String path, JsonNode sent, JsonNode decoded) {
    int numbers = 0;
    if (sent.isObject() && decoded != null) {
      for (var field : sent.properties()) {
        numbers += compare(path + "." + field.getKey(), field.getValue(), decoded.get(field.getKey()));
      }
      return numbers;
    }
    if (sent.isArray() && decoded != null) {
      for (int index = 0; index < sent.size(); index++) {
        numbers += compare(path + "[" + index + "]", sent.get(index), decoded.get(index));
      }
      return numbers;
    }
    boolean isNumber = sent.isNumber() && decoded != null && decoded.isNumber();
    boolean isEqual = isNumber
        ? new BigDecimal(sent.asText()).compareTo(new BigDecimal(decoded.asText())) == 0
        : sent.equals(decoded);
    if (!isEqual && !isSameTime(sent, decoded)) findings.add(path + ": " + decoded + " instead of " + sent);
    return sent.isNumber() ? 1 : 0;
  }

  /** Whether both are the same time. Jackson writes times in UTC. */
  private static boolean isSameTime(JsonNode sent, JsonNode decoded) {
    try {
      return java.time.OffsetDateTime.parse(sent.asText()).isEqual(java.time.OffsetDateTime.parse(decoded.asText()));
    } catch (RuntimeException notTwoTimes) {
      return false;
    }
  }

  /** Sends the request of the client again, and compares the body with what the client decoded. */
  private static void compareBody(Object body) throws Exception {
    HttpRequest.Builder request = HttpRequest.newBuilder(sent.get()).header("X-API-Key", System.getenv("TICKERLINE_KEY"));
    String text = HttpClient.newHttpClient().send(request.build(), HttpResponse.BodyHandlers.ofString()).body();
    JsonNode decoded = exact.readTree(client.getObjectMapper().writeValueAsString(body));
    int numbers = compare("", exact.readTree(text), decoded);
    if (numbers < MIN_NUMBERS) findings.add("only " + numbers + " numbers were compared");
  }

  private static void expectQuery(String text) {
    if (!sent.get().getRawQuery().contains(text)) findings.add(sent.get() + " does not contain " + text);
  }

  public static void main(String[] args) throws Exception {
    client = new ApiClient();
    client.updateBaseUri(System.getenv("TICKERLINE_URL"));
    client.setRequestInterceptor((request) -> {
      request.header("X-API-Key", System.getenv("TICKERLINE_KEY"));
      sent.set(request.build().uri());
    });
    IntradayRunnersApi runners = new IntradayRunnersApi(client);
    compareBody(runners.intradayRunnersList(APIIntradayRunnersListRequest.newBuilder().limit("100").build()));
    APIDilutionDataListAdvancedRequest dilution = APIDilutionDataListAdvancedRequest.newBuilder().limit("100").build();
    compareBody(new DilutionDataApi(client).dilutionDataListAdvanced(dilution));
    new ScreenerApi(client).screenerList(APIScreenerListRequest.newBuilder().minMarketCap(BOUND).build());
    expectQuery("min_market_cap=" + BOUND);
    try {
      runners.intradayRunnersList(
          APIIntradayRunnersListRequest.newBuilder().limit("all").format(ListFormat.ListFormatCsv).build());
    } catch (ApiException expected) {
      // The client fails without a status, because it expects JSON.
      if (expected.getCode() >= 400) findings.add("limit=all: " + expected);
    }
    expectQuery("limit=all");
    findings.forEach(System.out::println);
    if (!findings.isEmpty()) System.exit(1);
  }
}
