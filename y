{"gamma":"scale"}
{"gamma":0.1}
{"gamma":0.5}
{"gamma":"scale"}
{"gamma":0.1}
{"gamma":0.5}
