/* Messages of Amazon SNS: what is signed of them, with messages and the certificate that it has
 * sent, and what is no message. */
#include "services/edge/modules/webhook_members.h"
#include "services/edge/modules/webhook_sns.h"

#include <criterion/criterion.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>

#define CERTIFICATE_URL                                                                            \
    "https://sns.us-east-1.amazonaws.com/"                                                         \
    "SimpleNotificationService-e372f8ca30337fdb084e8ac449342c77.pem"

/* Of the certificate at that URL, which was valid in 2013 and 2014. */
static const char signer[] = "-----BEGIN PUBLIC KEY-----\n"
                             "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAqlIZGzgh6yfB8AAGc/a8\n"
                             "HFgCrAHIc3hSmznKUHeQlSgl7ackoleSeIsHomtzOD0YN/ldKWY4p9GtDB4UmMKc\n"
                             "TuGdsvUC5gOtuwHMWUhLyo3xHA1sK7U/0/CpCfZDx6TBWH+Q1qoAII6GRwG1SJdF\n"
                             "4ISdqxYoWqduPrOuUmzOC4PfY7i+3sfmITx5W1TjZ1zgn/a7O8TBCaf1bSVBxL+5\n"
                             "wt4WUxhxw1xT+gnE5qkqDZq4tq0DM+b6CKRRWdpxRLA0cfimfIJnz1yP0ZnO73hZ\n"
                             "kWv66iEm7qCPbyJUMhM6gfNuxOysC0trxBajVCYAWVTbTAUUB61FaRShD+9MJIfh\n"
                             "kQIDAQAB\n"
                             "-----END PUBLIC KEY-----\n";

#define TOKEN                                                                                      \
    "2336412f37fb687f5d51e6e241d164b05333037a74406d8dba969d354ea74d83709cd31e96da0cd0a3a0ee0e27b1" \
    "327ffe742b592fbd94724bef9e6b34405815f36381b22a27ba71d23d5e9219ecdc786e8d9a32d028cf2c433403ac" \
    "5f19a911c8248f581af32bb9459f6f5318aa707cb71f43438cdb0c84fd169d8b803ba5f1"
#define TOPIC "arn:aws:sns:us-east-1:250214102493:Demo_App_Unsubscribes"

/* As SNS has sent them. */
static const char subscription[] =
    "{\n  \"Type\" : \"SubscriptionConfirmation\",\n"
    "  \"MessageId\" : \"334fa09c-cfa2-465c-82aa-733848bece90\",\n"
    "  \"Token\" : \"" TOKEN "\",\n"
    "  \"TopicArn\" : \"" TOPIC "\",\n"
    "  \"Message\" : \"You have chosen to subscribe to the topic " TOPIC ".\\nTo confirm the "
    "subscription, visit the SubscribeURL included in this message.\",\n"
    "  \"SubscribeURL\" : \"https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&"
    "TopicArn=" TOPIC "&Token=" TOKEN "\",\n"
    "  \"Timestamp\" : \"2013-10-18T15:45:00.871Z\",\n"
    "  \"SignatureVersion\" : \"1\",\n"
    "  \"Signature\" : \"bfEXuIHh26xHeN9p2buadZl5U7mbj+lwf+3t03Cuxw6NLLgd48e+ij6EuZNmnRTWqGvgV/"
    "hkGiIYZtzk5g9dfKeSdYuH8YOGU8Z8OsNuo0Y5XoHxTfMHZAimgO/YjK/VwR+Umpop1Ov4+zIlCNUCDXLOSv7JMVqwQGw"
    "nMOYxzh2OHCfLJkoAYtCfPkXLdMGxwMDzwWtVWBwjnG4DwvgJFlNV2jdZrC6NPKtyz8YNbpBrW5yR20jShWS54unNXqx/"
    "8Y8fXq4QpFpjX7CC2DHTbhU25APamayN1nZYFO6V+3gaKwXU46X++fYU+8Ryr7lbTHKJ8xp6x5XCMu4hxXisAQ==\",\n"
    "  \"SigningCertURL\" : \"" CERTIFICATE_URL "\"\n}";
static const char notification[] =
    "{\n  \"Type\" : \"Notification\",\n"
    "  \"MessageId\" : \"f34c6922-c3a1-54a1-bd88-23f998b43978\",\n"
    "  \"TopicArn\" : \"" TOPIC "\",\n"
    "  \"Message\" : \"{\\\"notificationType\\\":\\\"Bounce\\\",\\\"bounce\\\":{\\\"bounceType\\\":"
    "\\\"Permanent\\\",\\\"reportingMTA\\\":\\\"dns; "
    "email.example.com\\\",\\\"bouncedRecipients\\\":"
    "[{\\\"emailAddress\\\":\\\"username@example.com\\\",\\\"status\\\":\\\"5.1.1\\\","
    "\\\"action\\\":"
    "\\\"failed\\\",\\\"diagnosticCode\\\":\\\"smtp; 550 5.1.1 <username@example.com>... "
    "User\\\"}],"
    "\\\"bounceSubType\\\":\\\"General\\\",\\\"timestamp\\\":\\\"2012-06-19T01:07:52.000Z\\\","
    "\\\"feedbackId\\\":\\\"00000138111222aa-33322211-cccc-cccc-cccc-ddddaaaa068a-000000\\\"},"
    "\\\"mail\\\":{\\\"timestamp\\\":\\\"2012-06-19T01:05:45.000Z\\\",\\\"source\\\":"
    "\\\"sender@example.com\\\",\\\"messageId\\\":"
    "\\\"00000138111222aa-33322211-cccc-cccc-cccc-ddddaaaa0680-000000\\\",\\\"destination\\\":"
    "[\\\"username@example.com\\\"]}}\",\n"
    "  \"Timestamp\" : \"2013-10-18T15:50:45.484Z\",\n"
    "  \"SignatureVersion\" : \"1\",\n"
    "  \"Signature\" : "
    "\"PHAc2BryPY/9susa1IKjR6+lEAj4EbILM7bAV2U8mXL9evPn0c7cLdwnOMDw6vKsk9N3TBtOg5Y"
    "6n57jSAyyDRmgGBMZTqz0TnomrBvsm7qR9O38Mmjn/F3y/dllkStPuH1OK+JloaZ191OwEXT2yIHTaXy3uGV27UnVsNZVg"
    "ZGJDbk29E3ofWDVdiqLlS/UOC/DdWdQoeQ6k1abf9cQEbVKzpi1GTyxEaQt7mS7eB/rexyazCY5PN/SbuJK0x/ZGVFt+8+"
    "uTLT3FzGhOHvpfQ2hP3rLswVkMEfDNdKggHUFQ3JJaIzMj4ZTxzZQX39MP8yBVZJefbXjAFOpiF9kgA==\",\n"
    "  \"SigningCertURL\" : \"" CERTIFICATE_URL "\",\n"
    "  \"UnsubscribeURL\" : \"https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe&"
    "SubscriptionArn=" TOPIC ":3b3e6f79-bc99-4519-8f4d-3b9b70856ab8\"\n}";

enum { SIGNED_AT_S = 1382111100 /* 2013-10-18T15:45:00Z */ };

static EVP_PKEY *signer_key(void)
{
    BIO *bio = BIO_new_mem_buf(signer, -1);
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);

    BIO_free(bio);
    cr_assert(key);
    return key;
}

/* ---- whole requests ---- */

typedef struct world {
    EVP_PKEY *key;
    webhook_verdict_t found;
    unsigned asked;
    const char *type; /* x-amz-sns-message-type; NULL: none */
    size_t types;
    const char *other, *value; /* another header; NULL: none */
} world_t;

static webhook_verdict_t find_key(void *arg, const char *url, EVP_PKEY **ret_key)
{
    world_t *world = arg;

    cr_assert_str_eq(url, CERTIFICATE_URL);
    world->asked++;
    *ret_key = world->key;
    return world->found;
}

static size_t find_headers(void *arg, webhook_text_t name, webhook_text_t *out, size_t max)
{
    const world_t *world = arg;

    if (world->other && name.len == strlen(world->other)
        && !memcmp(name.at, world->other, name.len)) {
        out[0] = (webhook_text_t){world->value, strlen(world->value)};
        return 1;
    }
    if (name.len != strlen("x-amz-sns-message-type")
        || memcmp(name.at, "x-amz-sns-message-type", name.len) != 0)
        return 0;
    for (size_t i = 0; i < world->types && i < max; i++)
        out[i] = (webhook_text_t){world->type, strlen(world->type)};
    return world->types;
}

static webhook_verdict_t judge(world_t *world, const char *body, int64_t now_s)
{
    const webhook_request_t request = {
        .method = {"POST", 4},
        .body = body,
        .body_len = body ? strlen(body) : 0,
        .now_ms = now_s * 1000,
        .headers = find_headers,
        .key = find_key,
        .arg = world,
    };

    return webhook_sns_judge(webhook_provider_find("sns"), &request);
}

Test(webhook_sns, what_sns_has_sent_is_verified)
{
    world_t world = {.key = signer_key(), .found = WEBHOOK_VERIFIED};

    cr_assert_eq(judge(&world, NULL, SIGNED_AT_S), WEBHOOK_NEEDS_BODY);
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S), WEBHOOK_VERIFIED);
    cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_VERIFIED);
    world.type = "SubscriptionConfirmation";
    world.types = 1;
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S), WEBHOOK_VERIFIED);
    cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_MALFORMED);
    world.types = 2;
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S), WEBHOOK_MALFORMED);
    EVP_PKEY_free(world.key);
}

Test(webhook_sns, headers_say_what_was_signed)
{
    world_t world = {.key = signer_key(), .found = WEBHOOK_VERIFIED};
    webhook_text_t body = {notification, strlen(notification)};
    static const struct {
        const char *name;
        webhook_sns_field_t field;
    } headers[] = {{"x-amz-sns-topic-arn", WEBHOOK_SNS_TOPIC_ARN},
                   {"x-amz-sns-message-id", WEBHOOK_SNS_MESSAGE_ID}};
    char value[256];
    webhook_sns_t message;

    cr_assert(webhook_sns_read(body, &message));
    for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++) {
        webhook_text_t field = message.fields[headers[i].field];

        snprintf(value, sizeof(value), "%.*s", (int)field.len, field.at);
        world.other = headers[i].name;
        world.value = value;
        cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_VERIFIED, "%s", value);
        value[0] ^= 1;
        cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_MALFORMED, "%s", value);
        value[0] = '\0';
        cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_MALFORMED);
    }
    world.other = "x-amz-sns-rawdelivery";
    world.value = "true";
    cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_MALFORMED);
    world.value = "";
    cr_assert_eq(judge(&world, notification, SIGNED_AT_S), WEBHOOK_MALFORMED);
    EVP_PKEY_free(world.key);
}

#define FORGED(id, subject, topic)                                                                 \
    "{\"Type\":\"Notification\",\"Message\":\"a\\nb\",\"MessageId\":\"" id "\","                   \
    "\"Subject\":\"" subject "\",\"TopicArn\":\"" topic "\",\"Timestamp\":\""                      \
    "2000-01-01T00:00:00.000Z\",\"SignatureVersion\":\"1\",\"Signature\":\"AAAA\","                \
    "\"SigningCertURL\":\"" CERTIFICATE_URL "\"}"

Test(webhook_sns, of_one_signed_text_no_other_message_can_be_made)
{
    world_t world = {.key = signer_key(), .found = WEBHOOK_VERIFIED};
    static const char *const forged[] = {FORGED("i", "s", "arn:victim\\nMessageId\\nx"),
                                         FORGED("i\\nSubject", "s", "t"), FORGED("i", "s\\r", "t"),
                                         FORGED("i", "s", "t\\u0000"), FORGED("i", "\\u007f", "t")};

    cr_assert_eq(judge(&world, FORGED("i", "s", "t"), SIGNED_AT_S), WEBHOOK_STALE,
                 "in the message a line may end");
    for (size_t i = 0; i < sizeof(forged) / sizeof(*forged); i++)
        cr_assert_eq(judge(&world, forged[i], SIGNED_AT_S), WEBHOOK_MALFORMED, "%s", forged[i]);
    EVP_PKEY_free(world.key);
}

Test(webhook_sns, each_character_that_is_changed_is_one_too_many)
{
    world_t world = {.key = signer_key(), .found = WEBHOOK_VERIFIED};
    const char *unsigned_url = strstr(notification, "UnsubscribeURL");
    char copy[sizeof(notification)];

    memcpy(copy, notification, sizeof(copy));
    for (size_t i = 0; notification + i < unsigned_url; i++) {
        webhook_verdict_t verdict;

        if (strchr(" \n", copy[i]) || strstr(notification, CERTIFICATE_URL) == notification + i) {
            i += copy[i] == 'h' ? strlen(CERTIFICATE_URL) : 0;
            continue;
        }
        copy[i] ^= 1;
        verdict = judge(&world, copy, SIGNED_AT_S);
        cr_assert_neq(verdict, WEBHOOK_VERIFIED, "%s", copy + i);
        copy[i] ^= 1;
    }
    EVP_PKEY_free(world.key);
}

Test(webhook_sns, a_message_is_an_hour_old_at_most)
{
    world_t world = {.key = signer_key(), .found = WEBHOOK_VERIFIED};

    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S + 3600), WEBHOOK_VERIFIED);
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S + 3602), WEBHOOK_STALE);
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S - 3598), WEBHOOK_VERIFIED);
    cr_assert_eq(judge(&world, subscription, SIGNED_AT_S - 3602), WEBHOOK_STALE);
    cr_assert_eq(world.asked, 2, "no certificate is asked for on behalf of an old message");
    EVP_PKEY_free(world.key);
}

Test(webhook_sns, without_a_key_nothing_is_verified)
{
    static const webhook_verdict_t found[] = {WEBHOOK_NEEDS_KEY, WEBHOOK_UNTRUSTED,
                                              WEBHOOK_UNREACHED};

    for (size_t i = 0; i < 3; i++) {
        world_t world = {.found = found[i]};

        cr_assert_eq(judge(&world, subscription, SIGNED_AT_S), found[i]);
    }
}

/* ---- what is a message, and what is signed of it ---- */

#define TAIL                                                                                       \
    "\"Signature\":\"AAAA\",\"SignatureVersion\":\"2\",\"SigningCertURL\":\"u\",\"Timestamp\":"    \
    "\"t\",\"TopicArn\":\"a\",\"MessageId\":\"i\""
#define NOTE "{\"Type\":\"Notification\",\"Message\":\"m\"," TAIL

typedef struct content {
    char at[512];
    size_t len;
} content_t;

static void add(void *arg, const void *bytes, size_t len)
{
    content_t *self = arg;

    cr_assert(self->len + len < sizeof(self->at));
    memcpy(self->at + self->len, bytes, len);
    self->len += len;
}

static const char *content_of(const char *body)
{
    static content_t content;
    webhook_sns_t message;

    content = (content_t){0};
    if (!webhook_sns_read((webhook_text_t){body, strlen(body)}, &message))
        return "no message";
    if (!webhook_sns_content(&message, add, &content))
        return "no text";
    return content.at;
}

Test(webhook_sns, the_content_that_is_signed)
{
    static const struct {
        const char *body, *content;
    } cases[] = {
        {NOTE "}", "Message\nm\nMessageId\ni\nTimestamp\nt\nTopicArn\na\nType\nNotification\n"},
        {NOTE ",\"Subject\":\"\"}",
         "Message\nm\nMessageId\ni\nSubject\n\nTimestamp\nt\nTopicArn\na\nType\nNotification\n"},
        {"{\"Type\":\"Notification\",\"Message\":"
         "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83c\\udf89\"," TAIL "}",
         "Message\n\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\x89\nMessageId\ni\nTimestamp\nt"
         "\nTopicArn\na\nType\nNotification\n"},
        {"{\"Type\":\"SubscriptionConfirmation\",\"Message\":\"m\",\"Token\":\"k\","
         "\"SubscribeURL\":"
         "\"s\"," TAIL "}",
         "Message\nm\nMessageId\ni\nSubscribeURL\ns\nTimestamp\nt\nToken\nk\nTopicArn\na\nType\n"
         "SubscriptionConfirmation\n"},
        {"{\"Type\":\"UnsubscribeConfirmation\",\"Message\":\"m\",\"Token\":\"k\",\"SubscribeURL\":"
         "\"s\"," TAIL "}",
         "Message\nm\nMessageId\ni\nSubscribeURL\ns\nTimestamp\nt\nToken\nk\nTopicArn\na\nType\n"
         "UnsubscribeConfirmation\n"},
        {"{\"Type\":\"Notification\",\"Message\":\"\\ud83c\"," TAIL "}", "no text"},
        {"{\"Type\":\"Notification\",\"Message\":\"\\udf89\\ud83c\"," TAIL "}", "no text"},
        {"{\"Type\":\"Notification\",\"Message\":\"\\ud83cx\"," TAIL "}", "no text"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        cr_assert_str_eq(content_of(cases[i].body), cases[i].content);
}

Test(webhook_sns, what_is_no_message)
{
    static const char *const bodies[] = {
        "",
        "{}",
        "[]",
        "null",
        NOTE,
        NOTE "}}",
        NOTE "} x",
        "\xef\xbb\xbf" NOTE "}",
        NOTE ",}",
        NOTE ",\"Message\":\"m\"}",
        NOTE ",\"message\":\"m\"}",
        NOTE ",\"MESSAGE\":1}",
        NOTE ",\"Me\\u0073sage\":\"m\"}",
        NOTE ",\"Me\xc5\xbf\xc5\xbf"
             "age\":\"m\"}",
        NOTE ",\"me\\u017f\\u017fage\":\"m\"}",
        NOTE ",\"To\xe2\x84\xaa"
             "en\":\"m\"}",
        NOTE ",\"Token\":\"k\"}",
        NOTE ",\"SubscribeURL\":\"s\"}",
        NOTE ",\"Subject\":null}",
        NOTE ",\"a\":\"\xff\"}",
        NOTE ",\"a\":\"\xc0\x80\"}",
        NOTE ",\"a\":\"\xed\xa0\x80\"}",
        NOTE ",\"a\":\"\n\"}",
        NOTE ",\"a\":\"\\x\"}",
        NOTE ",\"a\":\"\\u12g4\"}",
        NOTE ",\"a\":01}",
        NOTE ",\"a\":+1}",
        NOTE ",\"a\":.5}",
        NOTE ",\"a\":1.}",
        NOTE ",\"a\":1e}",
        NOTE ",\"a\":nul}",
        NOTE ",\"a\":nulll}",
        NOTE ",\"a\":[1,]}",
        NOTE ",\"a\":{\"b\"}}",
        NOTE ",\"a\":{,}}",
        NOTE ",a:1}",
        NOTE ",'a':1}",
        NOTE "/**/}",
        NOTE ",\"a\":[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]}",
        "{\"Type\":\"Other\",\"Message\":\"m\"," TAIL "}",
        "{\"Message\":\"m\"," TAIL "}",
        "{\"Type\":\"Notification\"," TAIL "}",
        "{\"Type\":\"Notification\",\"Message\":1," TAIL "}",
        "{\"Type\":\"SubscriptionConfirmation\",\"Message\":\"m\"," TAIL "}",
        "{\"Type\":\"SubscriptionConfirmation\",\"Message\":\"m\",\"Token\":\"k\",\"Subject\":"
        "\"s\","
        "\"SubscribeURL\":\"s\"," TAIL "}",
    };

    for (size_t i = 0; i < sizeof(bodies) / sizeof(*bodies); i++)
        cr_assert_str_eq(content_of(bodies[i]), "no message", "%s", bodies[i]);
    cr_assert_str_neq(content_of(NOTE ",\"a\":[1,-0.5e+3,true,false,null,{\"b\":{}},[],\"\"],"
                                      "\"MessageAttributes\":{\"Message\":{\"Type\":\"x\"}}}"),
                      "no message");
}
