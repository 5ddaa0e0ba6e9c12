//! The codes of errors: the only table from code to HTTP status, exit code and meaning.

macro_rules! codes {
    ($($status:literal exit $exit:literal { $($code:ident = $word:literal, $meaning:literal;)* })*) => {
        /// Every code an error can carry. Closed: a client may match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $meaning] $code,)*)* }

        impl Code {
            /// All codes, ordered by status.
            pub const ALL: &'static [Self] = &[$($(Self::$code,)*)*];

            /// The code in the error body.
            pub const fn as_str(self) -> &'static str {
                match self { $($(Self::$code => $word,)*)* }
            }

            /// The HTTP status of the code.
            pub const fn status(self) -> u16 {
                match self { $($(Self::$code => $status,)*)* }
            }

            /// The exit code of a command that fails with it.
            pub const fn exit_code(self) -> u8 {
                match self { $($(Self::$code => $exit,)*)* }
            }

            /// The meaning of the code, for the documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $($(Self::$code => $meaning,)*)* }
            }
        }
    };
}

codes! {
    400 exit 6 { InvalidJson = "invalid_json", "The body cannot be parsed as JSON."; }
    401 exit 6 {
        MissingApiKey = "missing_api_key", "The header x-api-key is missing.";
        InvalidApiKey = "invalid_api_key", "The API key is not a valid one.";
        RevokedApiKey = "revoked_api_key", "The API key was revoked.";
        MissingOperatorToken = "missing_operator_token", "The header Authorization with the operators' token is missing.";
        InvalidOperatorToken = "invalid_operator_token", "The token is not one of the operators' tokens.";
    }
    403 exit 6 {
        TenantSuspended = "tenant_suspended", "The account is suspended.";
        ForeignHost = "foreign_host", "Without operator.token only requests to this machine's own name, from no other page, are answered.";
        ReadOnlyToken = "read_only_token", "operator.read_token only reads; this takes operator.token.";
    }
    404 exit 5 {
        AgentNotFound = "agent_not_found", "There is no such agent.";
        PhoneNumberNotFound = "phone_number_not_found", "There is no such phone number.";
        CallNotFound = "call_not_found", "There is no such call.";
        SipMessagesNotFound = "sip_messages_not_found", "This process has no SIP messages of the call: the bridge that held it runs elsewhere or has restarted, or the call is not among its last 10,000.";
        WebhookNotFound = "webhook_not_found", "There is no such webhook.";
        FunctionNotFound = "function_not_found", "The agent has no function of that name.";
        DeliveryNotFound = "delivery_not_found", "There is no such delivery.";
        ChatNotFound = "chat_not_found", "There is no such chat, or its hour is over.";
        WidgetNotFound = "widget_not_found", "There is no such widget.";
        RouteNotFound = "route_not_found", "There is nothing at this path.";
        TenantNotFound = "tenant_not_found", "There is no such tenant.";
        KeyNotFound = "key_not_found", "There is no such key, or it is revoked already.";
        UserNotFound = "user_not_found", "There is no such user.";
        BridgeNotFound = "bridge_not_found", "There is no such bridge, or it is revoked already.";
        TransactionNotFound = "transaction_not_found", "There is no such transaction.";
        ActorNotFound = "actor_not_found", "No actor of this type has run here.";
    }
    405 exit 6 { MethodNotAllowed = "method_not_allowed", "The path does not take this method; the header Allow names those it takes."; }
    408 exit 6 { RequestTimeout = "request_timeout", "The body did not arrive in time."; }
    409 exit 6 {
        FunctionExists = "function_exists", "The agent has a function of that name already.";
        WebhookLimitReached = "webhook_limit_reached", "The account has as many webhooks as it can have.";
        WidgetLimitReached = "widget_limit_reached", "The account has as many widgets as it can have.";
        CallNotActive = "call_not_active", "The call is over; or, where it is to be erased, it is not over yet; or a delivery's call was erased.";
        ChatAnswering = "chat_answering", "The chat is answering the message before.";
        ChatFull = "chat_full", "The chat has as many messages as it can have.";
        IdempotencyInProgress = "idempotency_in_progress", "The first request with this Idempotency-Key is still running.";
        PhoneNumberExists = "phone_number_exists", "The number belongs to a tenant already.";
        UserExists = "user_exists", "Somebody has that address already.";
        ReferenceConflict = "reference_conflict", "The reference was used for another booking of the tenant's.";
        InsufficientMinutes = "insufficient_minutes", "The tenant has fewer minutes available than are to be taken.";
        VerificationRunning = "verification_running", "The ledger is being verified already.";
    }
    413 exit 6 { BodyTooLarge = "body_too_large", "The body has more than 262144 bytes."; }
    415 exit 6 { UnsupportedMediaType = "unsupported_media_type", "The body is not declared as application/json."; }
    422 exit 6 {
        ValidationFailed = "validation_failed", "One or more fields or parameters are wrong; all of them are listed.";
        IdempotencyKeyReused = "idempotency_key_reused", "The Idempotency-Key was used for another request.";
    }
    429 exit 6 { RateLimited = "rate_limited", "Too many requests; the header Retry-After says when to come back."; }
    500 exit 1 { InternalError = "internal_error", "A fault of the service's own."; }
    503 exit 1 {
        NoTextModel = "no_text_model", "No language model for chats is configured here.";
        Unavailable = "unavailable", "The service cannot answer now; try again after the seconds in Retry-After.";
    }
}
