<?php
$input = json_decode(stream_get_contents(STDIN), true);
$text = html_entity_decode(strip_tags($input["html"]), ENT_QUOTES | ENT_HTML5, "UTF-8");
echo json_encode(["text" => trim(preg_replace('/\s+/', " ", $text))]);
