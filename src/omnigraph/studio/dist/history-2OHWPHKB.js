import{a,b,c}from"./chunk-T3BMK3YJ.js";import"./chunk-6HK3WP67.js";export{b as History,c as NameDialog,a as layLanes};
