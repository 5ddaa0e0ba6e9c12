<?php
function verify(string $secret, string $header, string $rawBody): bool
{
    return hash_equals('sha256=' . hash_hmac('sha256', $rawBody, $secret), $header);
}

echo verify($argv[1], $argv[2], stream_get_contents(STDIN)) ? 'valid' : 'invalid', "\n";
