// What every page does: its clock, what has changed, and the small comforts of forms and pictures.
import "/static/clock.js";
import "/static/live.js";
import "/static/comforts.js";
import "/static/timeline.js";
import "/static/plan.js";
import "/static/finish.js";
import "/static/choose.js";
import "/static/find.js";
