// The page's own behavior. The address behind # says what is looked at; each module here does one thing with it.

import "./bar.js";
import "./care.js";
import "./crop.js";
import "./endless.js";
import "./filters.js";
import "./keys.js";
import "./panel.js";
import "./tiles.js";
import "./uploads.js";
import { start } from "./views.js";

start();
